//! Prints the arrows among the modules of a crate: `cargo run -p sidelane-structure --example arrows -- crates/sim/src/lib.rs`
use sidelane_structure::{Modules, circles};
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = std::env::args().nth(1).ok_or("name a root file")?;
    let arrows = Modules::read(root.as_ref())?.arrows();
    for circle in circles(&arrows) {
        println!(
            "circle: {}",
            circle
                .iter()
                .map(|m| m.join("::"))
                .collect::<Vec<_>>()
                .join(", ")
        );
        for (from, to) in &arrows {
            let part =
                |path: &Vec<String>| circle.iter().position(|module| path.starts_with(module));
            if let (Some(a), Some(b)) = (part(from), part(to))
                && a != b
            {
                println!("  {} -> {}", from.join("::"), to.join("::"));
            }
        }
    }
    Ok(())
}
