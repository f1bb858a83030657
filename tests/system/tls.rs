//! TLS without a load balancer: at the edge, at the core, between roles, and while certificates are renewed.

mod authority;
mod cores;
mod renewal;
mod roles;
mod start;
