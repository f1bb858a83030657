//! Compiles `thesis/v1/*.proto` with protox, so that no protoc is needed. Generates the views of `src/json.rs`, the
//! `Debug` of `src/secret.rs`, and the macro `every_service!`.

mod json;

use std::{env, fs, io, path::PathBuf};

use prost::Message as _;
use prost_types::FileDescriptorSet;

/// Messages that hold a secret, with the fields that their `Debug` shows.
const SECRET: [(&str, &[&str]); 35] = [
    ("AcceptInvitationRequest", &["email", "user_agent"]),
    ("AccountServiceCreateKeyResponse", &["api_key"]),
    ("AddPasskeyRequest", &["name"]),
    ("AddPasskeyResponse", &["passkey"]),
    ("AddTotpRequest", &[]),
    ("AddTotpResponse", &[]),
    ("BeginConfirmationResponse", &[]),
    ("BeginPasskeyResponse", &["host"]),
    ("BeginTotpResponse", &[]),
    ("ChangePasswordRequest", &["user_agent"]),
    ("ClaimResponse", &["delivery_id", "webhook_id", "attempt", "event_id"]),
    ("ConfirmEmailRequest", &[]),
    ("ConfirmSessionRequest", &[]),
    ("CreateInvitationResponse", &["invitation"]),
    ("CreateKeyResponse", &["api_key"]),
    ("CreateRecoveryCodesResponse", &[]),
    ("CreateResetLinkResponse", &["expires_at"]),
    ("CreateUserResponse", &["expires_at"]),
    ("CreateWebhookResponse", &["webhook"]),
    ("FactorProof", &[]),
    ("FinishSignInRequest", &["user_agent"]),
    ("GetFactorChallengeRequest", &[]),
    ("GetLinkRequest", &[]),
    ("NewSession", &["user", "expires_at"]),
    ("OpenRequest", &["session", "stream", "kind", "types", "filters", "cursor"]),
    ("PasskeyAssertion", &[]),
    ("ResetPasswordRequest", &["user_agent"]),
    ("ResetPasswordResponse", &["session"]),
    ("RollKeyResponse", &["api_key", "replaced"]),
    ("RotateWebhookSecretResponse", &["webhook"]),
    ("SignInRequest", &["email", "user_agent"]),
    ("SignInResponse", &["session"]),
    ("SignUpRequest", &["email", "organization_name", "user_agent"]),
    ("StreamTicket", &["expires_at"]),
    ("WebhookHeader", &["name"]),
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
    fs::write(out.join("every_service.rs"), every_service(&descriptors))?;
    let secret = SECRET.map(|(message, _)| message);
    fs::write(out.join("views.rs"), json::views(&descriptors, &fs::read_to_string("views.json")?, &secret)?)?;
    fs::write(out.join("secret.rs"), SECRET.map(|(message, shown)| debug(message, shown)).concat())?;
    let secret = secret.map(|message| format!(".thesis.v1.{message}"));
    tonic_prost_build::configure().bytes(".").skip_debug(secret).compile_fds(descriptors)?;
    Ok(())
}

/// A message's `Debug`.
fn debug(message: &str, shown: &[&str]) -> String {
    let fields: String = shown.iter().map(|field| format!(".field({field:?}, &self.{field})")).collect();
    format!(
        "impl fmt::Debug for v1::{message} {{\n\
         fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {{\n\
         formatter.debug_struct({message:?}){fields}.finish_non_exhaustive()\n}} }}\n"
    )
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
