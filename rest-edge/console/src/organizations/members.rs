//! The members of an organization and, for owners, the invitations to it.

use askama::Template;
use axum::extract::Path;
use serde::Deserialize;
use thesis_proto::v1;

use super::{
    access::{OrganizationAccess, role_choices, role_name, role_number, role_word},
    members_path,
};
use crate::{
    Page,
    failure::see_other,
    form::{Faults, NoFields, Posted},
    page_query::PageQuery,
    question::Question,
    view::{Choice, Layout, Moment, moment, render},
    visit::SignedIn,
};

const DONE: &[(&str, &str)] = &[
    ("role", "The role is changed."),
    ("removed", "The member is removed."),
    ("invited", "The invitation is sent. Its link works for seven days, once."),
    ("withdrawn", "The invitation is withdrawn. Its link works no more."),
];

/// The event that leads to the page of members.
pub(super) enum MembersState<'a> {
    /// A link, or a successful form with its word for the notice.
    Arrived(&'a str),
    /// A failed change of a role: user id, word of the role, faults.
    ChangingRole(&'a str, &'a str, Faults),
    /// A failed invitation.
    Inviting(&'a InvitationForm, Faults),
    /// A failed button.
    Pressed(Faults),
}

#[derive(Deserialize)]
pub(super) struct InvitationForm {
    #[serde(default)]
    pub(super) email: String,
    #[serde(default)]
    pub(super) role: String,
}

#[derive(Deserialize)]
pub(super) struct RoleForm {
    #[serde(default)]
    role: String,
    revision: Option<u64>,
}

struct MemberRow {
    id: String,
    email: String,
    role: &'static str,
    choices: Vec<Choice>,
    fault: Option<String>,
    joined_at: Moment,
    revision: u64,
    is_reader: bool,
    has_factor: bool,
}

#[derive(Template)]
#[template(path = "members.html")]
struct MembersPage<'a> {
    layout: Layout,
    access: OrganizationAccess,
    members: Vec<MemberRow>,
    invitations: Vec<v1::Invitation>,
    /// True if people without an account can accept an invitation.
    invites_strangers: bool,
    /// The user id of the visitor.
    reader: &'a str,
    /// The faults that belong to no field.
    whole: Option<&'a str>,
    email: &'a str,
    choices: Vec<Choice>,
    inviting: &'a Faults,
}

fn member_row(member: v1::Member, reader: &str) -> MemberRow {
    let role = member.role();
    let v1::User { id, email, second_factor, .. } = member.user.unwrap_or_default();
    MemberRow {
        is_reader: id == reader,
        has_factor: second_factor,
        id,
        email,
        role: role_name(role),
        choices: role_choices(role_word(role)),
        fault: None,
        joined_at: moment(member.created_at.as_ref()),
        revision: member.revision,
    }
}

pub(super) async fn page(signed_in: &SignedIn, id: &str, state: MembersState<'_>) -> Page {
    let access = OrganizationAccess::of(signed_in, id)?;
    let message = v1::ListMembersRequest { organization_id: id.to_owned() };
    let members = signed_in.core().accounts.list_members(signed_in.request(message)).await?.into_inner().data;
    let invitations = if access.is_owner() {
        let message = v1::ListInvitationsRequest { organization_id: id.to_owned() };
        signed_in.core().accounts.list_invitations(signed_in.request(message)).await?.into_inner().data
    } else {
        Vec::new()
    };

    let reader = signed_in.account.user.as_ref().map(|user| user.id.as_str()).unwrap_or_default();
    let mut members: Vec<_> = members.into_iter().map(|member| member_row(member, reader)).collect();
    let nobody = InvitationForm { email: String::new(), role: "viewer".to_owned() };
    let (mut done, mut invitee, mut inviting, mut pressed) = ("", &nobody, Faults::none(), Faults::none());
    match state {
        MembersState::Arrived(word) => done = word,
        MembersState::Pressed(faults) => pressed = faults,
        MembersState::Inviting(typed, faults) => (invitee, inviting) = (typed, faults),
        MembersState::ChangingRole(user, word, faults) => {
            if let Some(row) = members.iter_mut().find(|row| row.id == user) {
                row.fault = faults.field("role").map(str::to_owned);
                row.choices = role_choices(word);
            }
            pressed = faults;
        }
    }
    let status = if pressed.status().is_success() { inviting.status() } else { pressed.status() };
    let title = format!("Members of {}", access.name);
    let page = MembersPage {
        layout: Layout::of(signed_in, &title, "organizations").with_notice(done, DONE),
        access,
        members,
        invitations,
        invites_strangers: signed_in.account.invites_strangers,
        reader,
        whole: pressed.whole().or_else(|| inviting.whole()),
        email: &invitee.email,
        choices: role_choices(&invitee.role),
        inviting: &inviting,
    };
    render(status, &page)
}

pub(super) async fn show(signed_in: SignedIn, Path(id): Path<String>, query: PageQuery) -> Page {
    page(&signed_in, &id, MembersState::Arrived(query.text("done"))).await
}

pub(super) async fn change_role(
    signed_in: SignedIn,
    Path((id, user)): Path<(String, String)>,
    Posted(form): Posted<RoleForm>,
) -> Page {
    signed_in.membership(&id)?;
    let message = v1::UpdateMemberRequest {
        organization_id: id.clone(),
        user_id: user.clone(),
        role: role_number(&form.role),
        revision: form.revision,
    };
    match signed_in.change(signed_in.core().accounts.update_member(signed_in.request(message))).await {
        Ok(_) => Ok(see_other(&format!("{}?done=role", members_path(&id)))),
        Err(status) => {
            let state = MembersState::ChangingRole(&user, &form.role, Faults::of(&status)?);
            page(&signed_in, &id, state).await
        }
    }
}

/// Asks before a member is removed, or leaves.
pub(super) async fn ask_to_remove(signed_in: SignedIn, Path((id, user)): Path<(String, String)>) -> Page {
    let access = OrganizationAccess::of(&signed_in, &id)?;
    let message = v1::ListMembersRequest { organization_id: id.clone() };
    let members = signed_in.core().accounts.list_members(signed_in.request(message)).await?.into_inner().data;
    let mut people = members.into_iter().filter_map(|member| member.user);
    let Some(person) = people.find(|person| person.id == user) else {
        return Ok(see_other(&members_path(&id)));
    };
    let leaves = signed_in.account.user.as_ref().is_some_and(|reader| reader.id == user);
    let (title, consequence, button) = if leaves {
        let text = "You no longer see the organization. An owner can invite you again. The last owner cannot leave.";
        (format!("Leave {}?", access.name), text.to_owned(), "Leave the organization")
    } else {
        let text = format!("{} no longer sees {}, and their open live views end.", person.email, access.name);
        (format!("Remove {}?", person.email), text, "Remove member")
    };
    let question = Question {
        layout: Layout::of(&signed_in, &title, "organizations"),
        consequence,
        action: format!("{}/{user}/remove", members_path(&id)),
        button,
        name: None,
        reason: None,
        back: members_path(&id),
        faults: Faults::none(),
    };
    question.ask()
}

/// Members who remove themselves leave the organization.
pub(super) async fn remove(
    signed_in: SignedIn,
    Path((id, user)): Path<(String, String)>,
    Posted(NoFields {}): Posted<NoFields>,
) -> Page {
    signed_in.membership(&id)?;
    let leaves = signed_in.account.user.as_ref().is_some_and(|reader| reader.id == user);
    let message = v1::RemoveMemberRequest { organization_id: id.clone(), user_id: user };
    match signed_in.change(signed_in.core().accounts.remove_member(signed_in.request(message))).await {
        Ok(_) if leaves => Ok(see_other("/console")),
        Ok(_) => Ok(see_other(&format!("{}?done=removed", members_path(&id)))),
        Err(status) => page(&signed_in, &id, MembersState::Pressed(Faults::of(&status)?)).await,
    }
}
