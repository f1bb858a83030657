//! A mail server that does not answer. `tests/clients` has one that does.

use std::net::TcpListener;

use thesis_proto::v1::{self, Role};
use tokio::time::Instant;

use super::AT_ONCE;
use crate::harness::{Service, person::new_invitation};

// It has nothing to do with the store.
#[tokio::test]
async fn a_dead_mail_server_delays_nobody() {
    // It takes connections, and says nothing.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("smtp://{}", listener.local_addr().unwrap());
    let settings = |setup: crate::harness::Setup| {
        setup.set("SVC_SMTP_URL", &url).set("SVC_MAIL_FROM", "Thesis <no-reply@thesis.example>")
    };
    let mut service = Service::embedded(settings);
    let (owner, organization) = service.owner().await;
    for number in 0..5 {
        let email = format!("invited{number}@people.example");
        let began = Instant::now();
        let request = new_invitation(&organization, &email, Role::Viewer);
        let made = owner.ask().create_invitation(request).await.unwrap().into_inner();
        assert!(made.invitation.is_some() && made.link.is_none(), "a mail's link is for its reader alone");
        let asked = v1::RequestPasswordResetRequest { email: owner.email.clone() };
        // A network has three requests an hour.
        owner.elsewhere().ask().request_password_reset(asked).await.unwrap();
        assert!(began.elapsed() < 2 * AT_ONCE, "{:?}", began.elapsed());
    }
    // Nor does it hold up the end.
    let began = Instant::now();
    service.end(0, "TERM").await;
    assert!(began.elapsed() < 15 * AT_ONCE, "{:?}", began.elapsed());
}
