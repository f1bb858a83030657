//! Operations of people on their accounts, one file each.

pub mod accept_invitation;
pub mod change_password;
pub mod confirm_email;
pub mod create_invitation;
pub mod delete_invitation;
pub mod get_account;
pub mod get_link;
pub mod get_organization;
pub mod get_project_usage;
pub mod list_invitations;
pub mod list_key_usage;
pub mod list_members;
pub mod list_sessions;
pub mod remove_member;
pub mod request_live_access;
pub mod request_password_reset;
pub mod reset_password;
pub mod revoke_session;
pub mod send_confirmation;
pub mod set_up;
pub mod sign_in;
pub mod sign_out;
pub mod sign_up;
pub mod update_member;
pub mod update_organization;
pub mod update_project;
