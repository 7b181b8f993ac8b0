//! What has to hold for models made of the blocks: training is the same on any number of threads, on another device to
//! within rounding, and after a trip through a file.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::ops::testing::{as_on_another_device, assert_close, device, random, values};
use crate::*;

/// A model with one of every block, and large enough that its work is cut into pieces.
#[derive(Module, Debug)]
struct Everything {
    encoder: Mlp,
    lstm: Lstm,
    gumbel: GumbelSoftmax,
    transformer: Transformer,
    layered: Mlp,
    head: Linear,
}

const WIDTH: usize = 64;
const OFFSETS: [usize; 6] = [0, 90, 180, 260, 300, 310];

fn everything() -> Everything {
    let (device, mut rng) = (device(), Xoshiro256PlusPlus::seed_from_u64(3));
    let rng = &mut rng;
    let encoder =
        MlpConfig::new(20, WIDTH).with_hidden(96).with_normalization(Normalization::Batch);
    let layered = MlpConfig::new(WIDTH, WIDTH)
        .with_hidden(48)
        .with_layers(1)
        .with_normalization(Normalization::Layer)
        .with_dropout(0.2);
    Everything {
        encoder: encoder.init(&device, rng),
        lstm: LstmConfig::new(WIDTH, WIDTH).with_reverse(true).init(&device, rng),
        gumbel: GumbelSoftmaxConfig::new(4, WIDTH / 4).init(),
        transformer: TransformerConfig::new(5).with_width(WIDTH).with_layers(2).init(&device, rng),
        layered: layered.init(&device, rng),
        head: LinearConfig::new(WIDTH, 6).init(&device, rng),
    }
}

fn rows() -> SparseRows {
    let ends = (1..=310).map(|row| 2 * row).collect();
    SparseRows::new(20, ends, (0..620).map(|at| (at % 2) * 10 + (at * 7 / 3) % 10).collect())
}

fn forward(model: &Everything, noise: &mut Noise) -> Tensor<2> {
    let (memory, _) = model.lstm.forward(model.encoder.forward(rows(), noise), &OFFSETS, None);
    let clusters = model.gumbel.forward(memory, noise);
    let order: Vec<u32> = (0..310).map(|row| (row * 77) % 310).collect();
    let tokens = gather_rows(scale_gradient(clusters, -0.7), &order);
    let times: Vec<u32> = (0..310).map(|row| row % 7).collect();
    let tokens = model.transformer.forward(tokens, &times, &[0, 100, 101, 310], &order, noise);
    model.head.forward(model.layered.forward(tokens, noise))
}

fn loss(model: &Everything, noise: &mut Noise) -> Tensor<1> {
    let output = forward(model, noise);
    let targets: Vec<u32> = (0..310).map(|row| row % 6).collect();
    let weights: Vec<f32> = (0..310).map(|row| (row % 3) as f32).collect();
    cross_entropy(output.clone(), &targets, Some(&weights))
        + squared_error(output, random([310, 6], 8), None)
}

fn train(steps: usize) -> (Everything, Vec<f32>) {
    let mut model = everything();
    let mut noise = Noise::new(5);
    let mut optimizer = AdamWConfig::new().with_max_norm(Some(0.5)).with_warmup_steps(3).init();
    let mut losses = Vec::new();
    for _ in 0..steps {
        let loss = loss(&model, &mut noise);
        losses.extend(values(&loss));
        model = optimizer.step(3e-3, model, loss.backward());
    }
    (model, losses)
}

#[test]
fn training_is_the_same_on_any_number_of_threads() {
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| to_safetensors(&train(6).0))
    };
    let one = with(1);
    assert!(one == with(2), "two threads");
    assert!(one == with(5), "five threads");
}

#[test]
fn training_learns() {
    let (_, losses) = train(60);
    let (start, end) = (losses[0], losses[59]);
    assert!(end < 0.9 * start, "from {start} to {end}");
}

/// Rounding differs, so the paths part slowly; after three steps they are still together.
#[test]
fn another_device_trains_the_same_way() {
    let (here, losses) = train(3);
    let (there, other_losses) = as_on_another_device(|| train(3));
    assert_close("losses", &losses, &other_losses, 1e-4);
    let output = |model: &Everything| values(&forward(model, &mut Noise::new(1)));
    assert_close("outputs", &output(&here), &output(&there), 2e-2);
}

/// Acting, too, has a way of its own on another device.
#[test]
fn another_device_acts_the_same_way() {
    let transformer = everything().transformer.valid();
    let tokens: Tensor<2> = random([6, WIDTH], 1).inner();
    let extend = || {
        let mut cache = transformer.cache(2, 3);
        values(&transformer.extend(tokens.clone(), &[0, 1, 2, 0, 1, 2], &[0, 1], &mut cache))
    };
    assert_close("tokens", &extend(), &as_on_another_device(extend), 1e-4);
}

#[test]
fn a_file_gives_the_same_model() {
    let (trained, _) = train(4);
    let file = to_safetensors(&trained);
    let loaded = from_safetensors(everything(), &file).unwrap();
    let evaluate = |model: &Everything| {
        let (model, noise) = (model.valid(), &mut Noise::new(2));
        values(&forward(&model, noise))
    };
    assert_eq!(evaluate(&trained), evaluate(&loaded));
    assert_ne!(evaluate(&trained), evaluate(&everything()));
    assert!(file == to_safetensors(&loaded));

    // And goes on learning.
    let noise = &mut Noise::new(0);
    let optimizer = &mut AdamWConfig::new().init();
    let loss = loss(&loaded, noise);
    let moved = optimizer.step(1e-2, loaded, loss.backward());
    assert!(file != to_safetensors(&moved));
}

/// What configs count is what files hold, for every block and option.
#[test]
fn configs_count_what_is_stored() {
    let (device, rng) = (device(), &mut Xoshiro256PlusPlus::seed_from_u64(0));
    let stored = |bytes: Vec<u8>| stored_numbers(&bytes).unwrap();
    for bias in [false, true] {
        let config = LinearConfig::new(5, 3).with_bias(bias);
        assert_eq!(config.parameters(), stored(to_safetensors(&config.init(&device, rng))));
    }
    let config = LstmConfig::new(5, 3);
    assert_eq!(config.parameters(), stored(to_safetensors(&config.init(&device, rng))));
    for normalization in [Normalization::None, Normalization::Batch, Normalization::Layer] {
        for layers in 0..4 {
            let config = MlpConfig::new(5, 3).with_hidden(7).with_layers(layers);
            let config = config.with_normalization(normalization);
            let mlp = config.init(&device, rng);
            assert_eq!(config.parameters(), stored(to_safetensors(&mlp)), "{config}");
        }
    }
    for layers in 0..3 {
        let config = TransformerConfig::new(6).with_width(8).with_heads(2).with_layers(layers);
        let config = config.with_expansion(3);
        let transformer = config.init(&device, rng);
        assert_eq!(config.parameters(), stored(to_safetensors(&transformer)), "{config}");
    }
}

#[test]
fn silly_sizes_are_counted_without_overflow() {
    let most = usize::MAX;
    assert_eq!(LinearConfig::new(most, most).parameters(), most);
    assert_eq!(LstmConfig::new(most, most).parameters(), most);
    for normalization in [Normalization::None, Normalization::Batch, Normalization::Layer] {
        let config = MlpConfig::new(3, 2).with_hidden(most).with_layers(most);
        assert_eq!(config.with_normalization(normalization).parameters(), most);
    }
    let config = TransformerConfig::new(most).with_width(most).with_expansion(most);
    assert_eq!(config.with_layers(most).parameters(), most);
}

/// A file may carry a text. It changes nothing for those who do not ask for it.
#[test]
fn a_file_carries_a_text() {
    let model = everything().head;
    let (plain, text) = (to_safetensors(&model), "{\"actions\": \"α, β\"}");
    let with = to_safetensors_with(&model, "esper", text);
    assert!(with == to_safetensors_with(&model, "esper", text));
    assert_eq!(metadata(&with, "esper").unwrap().as_deref(), Some(text));
    assert_eq!(metadata(&with, "other").unwrap(), None);
    assert_eq!(metadata(&plain, "esper").unwrap(), None);
    assert!(metadata(b"nonsense", "esper").is_err());
    assert_eq!(stored_numbers(&with).unwrap(), stored_numbers(&plain).unwrap());
    let loaded = from_safetensors(model, &with).unwrap();
    assert!(to_safetensors(&loaded) == plain);
}

#[test]
fn numbers_that_are_none_are_refused() {
    let mut file = to_safetensors(&everything().head);
    let last = file.len() - 4;
    for (value, text) in [(f32::NAN, "NaN"), (f32::INFINITY, "inf")] {
        file[last..].copy_from_slice(&value.to_le_bytes());
        let problem = from_safetensors(everything().head, &file).unwrap_err();
        assert_eq!(
            problem.to_string(),
            format!("tensor weight holds {text}, which is not a finite number")
        );
    }
}

#[test]
fn a_file_that_does_not_fit_is_refused() {
    let rng = &mut Xoshiro256PlusPlus::seed_from_u64(0);
    let mlp = |hidden, layers| MlpConfig::new(3, 2).with_hidden(hidden).with_layers(layers);
    let file = to_safetensors(&mlp(4, 2).init(&device(), rng));
    let mut problem = |config: MlpConfig, file: &[u8]| {
        from_safetensors(config.init(&device(), rng), file).unwrap_err().to_string()
    };
    let shape = "tensor output.weight is [4, 2], the model's [5, 2]";
    assert_eq!(problem(mlp(5, 2), &file), shape);
    assert_eq!(problem(mlp(4, 3), &file), "tensor hidden.2.linear.bias is missing");
    assert_eq!(problem(mlp(4, 1), &file), "the model has 4 tensors, the file 6");
    assert!(problem(mlp(4, 2), b"nonsense").contains("not a safetensors file"));
    let cut = from_safetensors(mlp(4, 2).init(&device(), rng), &file[..file.len() - 4]);
    let cause = std::error::Error::source(&cut.unwrap_err()).map(ToString::to_string);
    assert!(cause.is_some_and(|cause| cause.contains("not fully covered")));
}

/// Evaluation is without gradients and without chance, and the same each time.
#[test]
fn evaluation_has_no_chance_in_it() {
    let mlp = everything().encoder.valid();
    assert!(!mlp.device().is_autodiff());
    let output = |seed| values(&mlp.forward(rows(), &mut Noise::new(seed)));
    assert_eq!(output(0), output(1));
    assert_eq!(mlp.device(), Device::flex());
}
