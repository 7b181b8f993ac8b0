//! Names that become names of folders and files.

/// Whether something may be called this: small letters, digits, `_`, `.` and `-`, a letter or a digit first, and not `all`,
/// which stands for everything there is. What tasks, methods and the like are called becomes a part of paths, and is written
/// on command lines.
///
/// ```
/// use esper_data::check_name;
///
/// assert!(check_name("connect-four").is_ok());
/// assert!(check_name("../elsewhere").is_err() && check_name("").is_err() && check_name("all").is_err());
/// ```
pub fn check_name(name: &str) -> Result<(), String> {
    let first = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let fits = name.starts_with(first) && name.chars().all(|c| first(c) || "_.-".contains(c));
    match name {
        "all" => {
            Err("nothing can be called `all`, which stands for everything there is".to_owned())
        }
        _ if fits => Ok(()),
        _ => Err(format!(
            "nothing can be called `{name}`: names are of a-z, 0-9, _, . and -, with a letter or a digit first"
        )),
    }
}
