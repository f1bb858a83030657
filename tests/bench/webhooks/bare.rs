//! What deliveries are compared with: a process whose loop only POSTs bodies of the same size.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
};

use axum::body::Bytes;
use clap::Args;
use futures::future::try_join_all;
use serde::{Deserialize, Serialize};
use tokio::{process::Command, time::Instant};

use crate::{Failure, mark::text, report::cpu_seconds};

/// What the posting process does.
#[derive(Args)]
pub(crate) struct Post {
    /// A file of URLs, one a line, that get the same number of posts
    #[arg(long)]
    urls: PathBuf,
    #[arg(long)]
    count: usize,
    /// Posts under way at once
    #[arg(long)]
    at_once: usize,
}

/// How it went.
#[derive(Serialize, Deserialize)]
pub(super) struct Posted {
    /// Posts a second.
    pub(super) rate: f64,
    /// Processor time of one.
    pub(super) cpu_us: f64,
}

/// Posts, and prints how it went.
pub(crate) async fn post(task: Post) -> Result<(), Failure> {
    let Post { urls, count, at_once } = task;
    let urls: Arc<[String]> = std::fs::read_to_string(&urls)?.lines().map(str::to_owned).collect();
    let client = reqwest::Client::builder().no_proxy().http1_only().build()?;
    // As long as one of our events.
    let body = Bytes::from(format!("{{\"text\":\"{}\",\"filler\":\"{}\"}}", text(), "x".repeat(600)));
    let began = Instant::now();
    let posting = (0..at_once).map(|first| {
        let (client, urls, body) = (client.clone(), Arc::clone(&urls), body.clone());
        tokio::spawn(async move {
            for number in (first..count).step_by(at_once) {
                let url = &urls[number % urls.len()];
                client.post(url.as_str()).body(body.clone()).send().await?.error_for_status()?;
            }
            Ok::<_, Failure>(())
        })
    });
    try_join_all(posting).await?.into_iter().collect::<Result<(), Failure>>()?;
    let count = count as f64;
    let rate = count / began.elapsed().as_secs_f64();
    let cpu_us = cpu_seconds(std::process::id()).unwrap_or(f64::NAN) * 1e6 / count;
    println!("{}", serde_json::to_string(&Posted { rate, cpu_us })?);
    Ok(())
}

/// Runs the posting process.
pub(super) async fn posted(urls: &[String], count: usize, at_once: usize, dir: &Path) -> Result<Posted, Failure> {
    let file = dir.join("bench-urls");
    std::fs::write(&file, urls.join("\n"))?;
    let output = Command::new(std::env::current_exe()?)
        .args(["post", "--count", &count.to_string(), "--at-once", &at_once.to_string(), "--urls"])
        .arg(&file)
        .stderr(Stdio::inherit())
        .output()
        .await?;
    if !output.status.success() {
        return Err("the bare posts failed".into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
