//! Two people who edit one thing: the later one is told.

use thesis_proto::v1::Role;

use super::Customer;
use crate::harness::Service;

on_both_stores![the_later_one_is_told];

async fn the_later_one_is_told(service: &Service) {
    let customer = Customer::new(service).await;
    let other = service.member(&customer.owner, &customer.organization, Role::Owner).await;
    let (one, other) = (service.browser_of(&customer.owner), service.browser_of(&other));
    let organization = format!("/console/organizations/{}", customer.organization);
    let project = format!("/console/projects/{}", customer.project);
    for path in [&organization, &project] {
        let action = format!("{path}/name");
        let path = &format!("{path}/settings");
        let form = other.open(path).await.is(200).form(&action).fill("name", "Late");
        let first = one.open(path).await.is(200).form(&action).fill("name", "First");
        one.submit(&first).await.is(200).says("First");
        let told = other.submit(&form).await.is(409).says("again");
        // What was typed is kept, and the page shows what the thing is now.
        assert_eq!(told.form(&action).field("name").value, "Late", "{told}");
        one.open(path).await.is(200).says("First");
        // After a look they may change it.
        let form = other.open(path).await.is(200).form(&action).fill("name", "Second");
        other.submit(&form).await.is(200).says("Second");
    }
    let member = service.member(&customer.owner, &customer.organization, Role::Viewer).await;
    let (members, action) = (format!("{organization}/members"), format!("{organization}/members/{}/role", member.id));
    let form = other.open(&members).await.is(200).form(&action).fill("role", "owner");
    let first = one.open(&members).await.is(200).form(&action).fill("role", "developer");
    one.submit(&first).await.is(200);
    other.submit(&form).await.is(409).says("again");
    let seen = customer.owner.members(&customer.organization).await;
    let now = seen.iter().find(|row| row.user.as_ref().unwrap().id == member.id).unwrap();
    assert_eq!(now.role(), Role::Developer);
}
