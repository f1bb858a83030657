//! Compiles `thesis/v1/*.proto` with protox, so that no protoc is needed, and generates the views of `src/json.rs`.

mod json;

use std::{env, fs, io, path::PathBuf};

use prost::Message as _;

/// Messages that hold a secret; `src/secret.rs` shows them without it.
const SECRET: [&str; 18] = [
    ".thesis.v1.AcceptInvitationRequest",
    ".thesis.v1.AccountServiceCreateKeyResponse",
    ".thesis.v1.ChangePasswordRequest",
    ".thesis.v1.ClaimResponse",
    ".thesis.v1.ConfirmEmailRequest",
    ".thesis.v1.CreateInvitationResponse",
    ".thesis.v1.CreateKeyResponse",
    ".thesis.v1.CreateResetLinkResponse",
    ".thesis.v1.CreateUserResponse",
    ".thesis.v1.CreateWebhookResponse",
    ".thesis.v1.GetLinkRequest",
    ".thesis.v1.NewSession",
    ".thesis.v1.OpenRequest",
    ".thesis.v1.ResetPasswordRequest",
    ".thesis.v1.RotateWebhookSecretResponse",
    ".thesis.v1.SignInRequest",
    ".thesis.v1.SignUpRequest",
    ".thesis.v1.StreamTicket",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let mut files =
        fs::read_dir("thesis/v1")?.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>()?;
    files.sort();
    println!("cargo:rerun-if-changed=thesis");
    println!("cargo:rerun-if-changed=views.json");

    let descriptors = protox::compile(&files, ["."])?;
    fs::write(out.join("thesis.v1.bin"), descriptors.encode_to_vec())?;
    fs::write(out.join("views.rs"), json::views(&descriptors, &fs::read_to_string("views.json")?, &SECRET)?)?;
    tonic_prost_build::configure().bytes(".").skip_debug(SECRET).compile_fds(descriptors)?;
    Ok(())
}
