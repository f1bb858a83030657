//! Compiles `thesis/v1/*.proto` with protox, so that no protoc is needed.

use std::{env, fs, io, path::PathBuf};

use prost::Message as _;
use prost_types::FileDescriptorSet;

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

    let descriptors = protox::compile(&files, ["."])?;
    fs::write(out.join("thesis.v1.bin"), descriptors.encode_to_vec())?;
    fs::write(out.join("every_service.rs"), every_service(&descriptors))?;
    tonic_prost_build::configure().bytes(".").skip_debug(SECRET).compile_fds(descriptors)?;
    Ok(())
}

/// A macro that gives each service to another one: its types, its unary methods, and its server-streaming ones.
fn every_service(descriptors: &FileDescriptorSet) -> String {
    let mut services = String::new();
    for service in descriptors.file.iter().flat_map(|file| &file.service) {
        let (mut unary, mut streaming) = (String::new(), String::new());
        for method in &service.method {
            let [request, response] =
                [method.input_type(), method.output_type()].map(|path| path.rsplit('.').next().unwrap_or_default());
            let (name, method_name) = (method.name(), snake_case(method.name()));
            if method.server_streaming() {
                streaming += &format!("{method_name}: {request} -> {response} as {name}Stream; ");
            } else {
                unary += &format!("{method_name}: {request} -> {response}; ");
            }
        }
        let (name, module) = (service.name(), snake_case(service.name()));
        let types = format!("{module}_server {name} {module}_client {name}Client");
        services += &format!("$each! {{ {types} {{ {unary}}} streaming {{ {streaming}}} }}\n");
    }
    format!(
        "/// Gives each service to a macro: its types, its unary methods, and its server-streaming ones.\n\
         #[macro_export]\nmacro_rules! every_service {{ ($each:ident) => {{\n{services}}}; }}\n"
    )
}

fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}
