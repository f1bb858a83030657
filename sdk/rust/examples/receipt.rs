//! Checks a receipt without network access: `cargo run --example receipt receipt.json [KEY]…`

use std::{env, error::Error, fs};

use trade_thesis_client::{Subject, verify_receipt};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (file, keys) = arguments.split_first().ok_or("name a file with a receipt, and the keys that you trust")?;
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let verified = verify_receipt(&fs::read(file)?, &keys, &[])?;
    let (size, is_trusted) = (verified.checkpoint.size, verified.is_trusted);
    println!("valid in a log with {size} entries; signed by a key that you trust: {is_trusted}");
    if let Subject::Recorded(evidence) = verified.subject {
        println!("{} {} {}", evidence.recorded_at, evidence.profile.handle, evidence.text.unwrap_or_default());
    }
    Ok(())
}
