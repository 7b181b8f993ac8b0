//! Loads a policy from its file and acts with it: all that an engineer needs to embed one.
//!
//! ```sh
//! cargo run --release -p esper-examples --bin train
//! cargo run --release -p esper-examples --bin act -- runs/train/esper-mlp-0/policy.safetensors 1
//! ```

use esper::Registry;
use esper::condition::Target;
use esper::policy::Policy;
use esper_data::{Cells, Seed};
use esper_nn::DeviceName;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("name the file of a policy")?;
    let target: f64 = arguments.next().unwrap_or_else(|| "1".to_owned()).parse()?;
    let policy = Policy::load(path.as_ref(), &Registry::default(), &DeviceName::Cpu.open()?)?;
    let interface = &policy.card().interface;
    println!(
        "sees {}, does {}",
        interface.observation.space(),
        interface.action.encoding().space()
    );

    // One episode, in place 0. An agent acts in as many places at once as you like.
    let mut agent = policy.agent();
    agent.begin(0, Target::Return(target), Seed::new(0));
    let mut world = esper_tasks::task("gambling").expect("it is built in").worlds(1)?;
    world.reset(0, 7)?;
    while world.running()[0] {
        let mut action = Cells::empty(world.spaces().action.cell_type());
        agent.act(world.observations(), &[0], &mut action)?;
        println!("in {:?} does {}", world.observations(), action.category(0));
        world.step(action.view())?;
        agent.reward(0, world.steps()[0].reward)?;
    }
    agent.end(0);
    println!("received {}", world.steps()[0].reward);
    Ok(())
}
