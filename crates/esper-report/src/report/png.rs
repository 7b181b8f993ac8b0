//! Figures in pixels.

use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};

use super::{Figure, ReportError};

/// Pixels for every unit of a figure.
const SCALE: f32 = 2.0;

/// A figure as the bytes of a PNG file. Letters come from a font that the program carries.
pub fn to_png(figure: &Figure) -> Result<Vec<u8>, ReportError> {
    let failed = |problem: &dyn std::fmt::Display| {
        ReportError::Pixels(format!("{} cannot be drawn: {problem}", figure.name))
    };
    let mut fonts = fontdb::Database::new();
    fonts.load_font_data(epaint_default_fonts::UBUNTU_LIGHT.to_vec());
    fonts.set_sans_serif_family("Ubuntu");
    let options =
        Options { font_family: "Ubuntu".to_owned(), fontdb: Arc::new(fonts), ..Options::default() };
    let tree = Tree::from_str(&figure.standalone(), &options).map_err(|error| failed(&error))?;
    let size = tree.size();
    let pixels = |length: f32| (length * SCALE).ceil() as u32;
    let mut map = Pixmap::new(pixels(size.width()), pixels(size.height()))
        .ok_or_else(|| failed(&"it has no size"))?;
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut map.as_mut());
    map.encode_png().map_err(|error| failed(&error))
}

#[cfg(test)]
mod tests {
    use super::super::{Axis, Colour, Mark, Panel, Series};
    use super::*;

    /// Letters are drawn, too: a figure with a name in its legend has more ink than one without.
    #[test]
    fn figures_have_ink_and_letters() {
        let figure = |name: &str| Figure {
            name: "f".to_owned(),
            title: "f".to_owned(),
            series: vec![Series { colour: Colour(0), name: name.to_owned() }],
            panels: vec![Panel {
                height: 50.0,
                x: Axis { label: None, low: 0.0, high: 1.0 },
                y: Axis { label: None, low: 0.0, high: 1.0 },
                marks: vec![Mark::Line {
                    colour: Colour(0),
                    points: vec![[0.0, 0.0], [1.0, 1.0]],
                    says: String::new(),
                }],
            }],
            data: Vec::new(),
        };
        let ink = |figure: &Figure| {
            let map = Pixmap::decode_png(&to_png(figure).unwrap()).unwrap();
            map.pixels().iter().filter(|pixel| pixel.red() < 128).count()
        };
        let (without, with) = (ink(&figure("")), ink(&figure("a long name of a method")));
        assert!(without > 200, "{without}");
        assert!(with > without + 300, "{with} {without}");
    }
}
