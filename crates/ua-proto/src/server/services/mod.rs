//! The services, one file each. A service takes a [`super::desk::Desk`] and the rest of a request's body and writes
//! its response; an error is the service result of a ServiceFault.

pub(super) mod attributes;
pub(crate) mod bounds;
pub(super) mod browse;
pub(super) mod call;
pub(super) mod discovery;
mod history_put;
pub(super) mod history_read;
pub(super) mod history_update;
pub(super) mod monitor;
pub(super) mod read;
pub(super) mod register;
pub(super) mod subscription_methods;
pub(super) mod translate;
pub(super) mod write;

use opcua_types::StatusCode;

/// Refuses empty requests and those over an operation limit (0: none).
pub(crate) fn operations(count: usize, limit: u32) -> Result<(), StatusCode> {
    match count {
        0 => Err(StatusCode::BadNothingToDo),
        _ if limit != 0 && count > limit as usize => Err(StatusCode::BadTooManyOperations),
        _ => Ok(()),
    }
}
