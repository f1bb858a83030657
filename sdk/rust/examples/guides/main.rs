//! The programs of the guides (`docs/guides`) in Rust. Each file has the text of one block of code there, which
//! `tests/guides` checks and runs: `API_URL=https://… API_KEY=svc_test_… cargo run --example guides alerts`

use std::{env, error::Error};

/// Makes each file a module, and runs the `main` of the one with a name.
macro_rules! programs {
    ($($name:ident)+) => {
        $(
            mod $name {
                include!(concat!(stringify!($name), ".rs"));

                pub(super) fn run() -> Result<(), Box<dyn std::error::Error>> {
                    main()
                }
            }
        )+

        fn run(name: &str) -> Result<(), Box<dyn Error>> {
            $(
                if name == stringify!($name) {
                    return $name::run();
                }
            )+
            Err(format!("{name}: no program of a guide has this name").into())
        }
    };
}

programs! {
    alerts as_of claim create create_webhook delete_webhooks deliveries endpoint errors events follow going_live hello
    key likes newest open pages receipts repeat replays resume rotate_secret sandbox sdks search test_webhook ticket
    token usage verify
}

fn main() -> Result<(), Box<dyn Error>> {
    let name = env::args().nth(1).ok_or("name the program: its file without `.rs`")?;
    run(&name)
}
