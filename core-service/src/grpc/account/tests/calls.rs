//! Calls of account methods on one resource.

use thesis_proto::time::from_millis;

use super::*;

/// The name of every created resource.
const NAME: &str = "a name";

fn ids<T>(rows: &[T], id: impl Fn(&T) -> &str) -> Vec<String> {
    rows.iter().map(|row| id(row).to_owned()).collect()
}

/// Calls a method on a resource. Returns all ids in the response.
pub(super) async fn call(core: &Core, by: &Person, method: &str, id: &str, step: &Step) -> Outcome<Vec<String>> {
    let (id, name, user_id) = (id.to_owned(), NAME.to_owned(), PEOPLE[step.other].0.to_owned());
    let (organization_id, role) = (id.clone(), step.role);
    Ok(match method {
        "GetOrganization" => {
            let response = get_organization(core, by, &v1::GetOrganizationRequest { id }).await?;
            vec![response.organization.unwrap().id]
        }
        "UpdateOrganization" => {
            let message = v1::UpdateOrganizationRequest { id, name, revision: None };
            vec![update_organization(core, by, &message).await?.organization.unwrap().id]
        }
        "RequireSecondFactor" => {
            let message = v1::RequireSecondFactorRequest { organization_id, required: false };
            vec![require_second_factor(core, by, &message).await?.organization.unwrap().id]
        }
        "ListMembers" => {
            let response = list_members(core, by, &v1::ListMembersRequest { organization_id }).await?;
            ids(&response.data, |row| &row.user.as_ref().unwrap().id)
        }
        "UpdateMember" => {
            let message = v1::UpdateMemberRequest { organization_id, user_id, role, revision: None };
            vec![update_member(core, by, &message).await?.member.unwrap().user.unwrap().id]
        }
        "RemoveMember" => {
            remove_member(core, by, &v1::RemoveMemberRequest { organization_id, user_id }).await?;
            Vec::new()
        }
        "CreateInvitation" => {
            let email = format!("{}@example.com", step.other);
            let message = v1::CreateInvitationRequest { organization_id, email, role };
            vec![create_invitation(core, by, &message).await?.invitation.unwrap().id]
        }
        "ListInvitations" => {
            let response = list_invitations(core, by, &v1::ListInvitationsRequest { organization_id }).await?;
            ids(&response.data, |row| &row.id)
        }
        "DeleteInvitation" => {
            delete_invitation(core, by, &v1::DeleteInvitationRequest { id }).await?;
            Vec::new()
        }
        "ListAuditEntries" => {
            let message = v1::ListAuditEntriesRequest { organization_id, ..Default::default() };
            ids(&list_audit_log(core, by, &message).await?.data, |row| row.organization_id.as_deref().unwrap())
        }
        _ => call_about_projects(core, by, method, id).await?,
    })
}

/// Calls a method on projects and their resources.
async fn call_about_projects(core: &Core, by: &Person, method: &str, id: String) -> Outcome<Vec<String>> {
    let (organization_id, project_id, name) = (id.clone(), id.clone(), NAME.to_owned());
    let project = |row: Option<v1::Project>| vec![row.unwrap().id];
    Ok(match method {
        "CreateProject" => {
            let message = v1::AccountServiceCreateProjectRequest { organization_id, name, once: None };
            project(create_project(core, by, &message).await?.project)
        }
        "ListProjects" => {
            let response = list_projects(core, by, &v1::AccountServiceListProjectsRequest { organization_id }).await?;
            ids(&response.data, |row| &row.id)
        }
        "UpdateProject" => {
            let message = v1::UpdateProjectRequest { id, name, revision: None };
            project(update_project(core, by, &message).await?.project)
        }
        "ArchiveProject" => {
            project(archive_project(core, by, &v1::AccountServiceArchiveProjectRequest { id }).await?.project)
        }
        "RequestLiveAccess" => {
            let message = v1::RequestLiveAccessRequest { project_id, note: None };
            project(request_live_access(core, by, &message).await?.project)
        }
        _ => call_about_keys(core, by, method, id).await?,
    })
}

/// Calls a method on keys and their requests.
async fn call_about_keys(core: &Core, by: &Person, method: &str, id: String) -> Outcome<Vec<String>> {
    let (project_id, environment) = (id.clone(), v1::Environment::Test.into());
    Ok(match method {
        "CreateKey" => {
            let message = v1::AccountServiceCreateKeyRequest {
                project_id,
                environment,
                name: NAME.to_owned(),
                ..Default::default()
            };
            vec![create_key(core, by, &message).await?.api_key.unwrap().id]
        }
        "ListKeys" => {
            let response = list_keys(core, by, &v1::AccountServiceListKeysRequest { project_id }).await?;
            ids(&response.data, |row| &row.id)
        }
        "RevokeKey" => {
            vec![revoke_key(core, by, &v1::AccountServiceRevokeKeyRequest { id }).await?.api_key.unwrap().id]
        }
        "RollKey" => {
            let message = v1::RollKeyRequest { id, ends_at: Some(from_millis(NOON)), ..Default::default() };
            vec![roll_members_key(core, by, &message).await?.api_key.unwrap().id]
        }
        "GetProjectUsage" => {
            let response = get_project_usage(core, by, &v1::GetProjectUsageRequest { project_id }).await?;
            assert!(!response.test.unwrap().livemode && response.live.unwrap().livemode);
            Vec::new()
        }
        "ListKeyUsage" => {
            let message = v1::ListKeyUsageRequest { project_id, from: Some(from_millis(NOON)), to: None };
            ids(&list_key_usage(core, by, &message).await?.data, |row| &row.key_id)
        }
        "ListLoggedRequests" => {
            let message = v1::ListLoggedRequestsRequest { project_id, environment, ..Default::default() };
            ids(&list_logged_requests(core, by, &message).await?.data, |row| &row.key_id)
        }
        "GetLoggedRequest" => {
            let began_at = Some(from_millis(NOON));
            let message = v1::GetLoggedRequestRequest { project_id, environment, began_at, id: "req_1".to_owned() };
            assert_eq!(get_logged_request(core, by, &message).await?.request, None);
            Vec::new()
        }
        other => panic!("the test does not know {other}"),
    })
}
