//! What a session is told about its own rights is what it has (facts sections 7.3 and 8).

use access_model::Rights;
use opcua_types::*;
use pep::Who;

use super::services::attribute_of;
use super::world::*;

fn world_with(rights: Rights) -> (World, crate::server::ConnId, Login) {
    let local = vec![grant(Who::User("alice".into()), vec![(rights, "reactor")])];
    let mut world = Setup { local, ..Setup::default() }.start();
    let (conn, login) = world.log_in(ENCRYPT, "alice");
    (world, conn, login)
}

fn read(
    world: &mut World,
    conn: crate::server::ConnId,
    login: &Login,
    node: &str,
    attribute: AttributeId,
) -> DataValue {
    world.read(conn, login, vec![attribute_of(&id(node), attribute)]).unwrap().remove(0)
}

#[test]
fn user_access_level_is_what_reads_and_writes_then_do() {
    let browse = Rights::BROWSE;
    for rights in [browse, browse | Rights::READ, browse | Rights::WRITE, browse | Rights::READ | Rights::WRITE] {
        let (mut world, conn, login) = world_with(rights);
        let level = read(&mut world, conn, &login, "Setpoint", AttributeId::UserAccessLevel);
        let Some(Variant::Byte(level)) = level.value else { panic!("a level") };
        let reads = world.read_one(conn, &login, "Setpoint").is_ok();
        let writes = world.write(conn, &login, vec![(id("Setpoint"), Variant::from(3.0))]).unwrap()[0].is_good();
        assert_eq!((level & 1 != 0, level & 2 != 0), (reads, writes), "{rights}");
    }
}

#[test]
fn user_executable_needs_the_right_to_call() {
    for (rights, expected) in [(Rights::BROWSE, false), (Rights::BROWSE | Rights::CALL, true)] {
        let (mut world, conn, login) = world_with(rights);
        let told = read(&mut world, conn, &login, "Reset", AttributeId::UserExecutable).value;
        assert_eq!(told, Some(Variant::Boolean(expected)), "{rights}");
        let own = read(&mut world, conn, &login, "Reset", AttributeId::Executable).value;
        assert_eq!(own, Some(Variant::Boolean(true)), "the method itself can be executed");
    }
}

#[test]
fn user_role_permissions_add_up_to_the_rights() {
    let rights = Rights::BROWSE | Rights::READ;
    let (mut world, conn, login) = world_with(rights);
    let told = read(&mut world, conn, &login, "Setpoint", AttributeId::UserRolePermissions).value;
    let Some(Variant::Array(roles)) = told else { panic!("an array") };
    let (mut union, mut ids) = (0, Vec::new());
    for role in &roles.values {
        let Variant::ExtensionObject(object) = role else { panic!("a structure") };
        let role = object.inner_as::<RolePermissionType>().unwrap();
        union |= role.permissions.bits();
        ids.push(role.role_id.as_u32().unwrap());
    }
    assert_eq!(union, rights.bits() as i32);
    assert_eq!(ids, [15_644, 15_656, 15_680], "Anonymous, AuthenticatedUser, Operator");
}

#[test]
fn what_each_attribute_needs() {
    let cases = [
        (Rights::BROWSE, AttributeId::Value, StatusCode::BadUserAccessDenied),
        (Rights::BROWSE, AttributeId::RolePermissions, StatusCode::BadUserAccessDenied),
        (Rights::BROWSE, AttributeId::BrowseName, StatusCode::Good),
        (Rights::BROWSE, AttributeId::DataType, StatusCode::Good),
        (Rights::BROWSE, AttributeId::UserWriteMask, StatusCode::Good),
        (Rights::BROWSE, AttributeId::Executable, StatusCode::BadAttributeIdInvalid),
        (Rights::BROWSE, AttributeId::UserExecutable, StatusCode::BadAttributeIdInvalid),
        (Rights::READ, AttributeId::Value, StatusCode::Good),
        (Rights::READ, AttributeId::BrowseName, StatusCode::BadNodeIdUnknown),
        (Rights::WRITE, AttributeId::Value, StatusCode::BadNodeIdUnknown),
    ];
    for (rights, attribute, expected) in cases {
        let (mut world, conn, login) = world_with(rights);
        let told = read(&mut world, conn, &login, "Setpoint", attribute);
        assert_eq!(told.status(), expected, "{rights} {attribute:?}");
        assert_eq!(told.value.is_some(), expected.is_good(), "{rights} {attribute:?}");
    }
}

#[test]
fn what_writing_each_attribute_needs() {
    let all = Rights::BROWSE | Rights::WRITE;
    let cases = [
        (all, AttributeId::Historizing, StatusCode::BadUserAccessDenied),
        (all | Rights::WRITE_HISTORIZING, AttributeId::Historizing, StatusCode::BadNotWritable),
        (all, AttributeId::RolePermissions, StatusCode::BadUserAccessDenied),
        (all, AttributeId::BrowseName, StatusCode::BadUserAccessDenied),
        (all | Rights::WRITE_ATTRIBUTE, AttributeId::BrowseName, StatusCode::BadNotWritable),
        (Rights::BROWSE, AttributeId::Value, StatusCode::BadUserAccessDenied),
    ];
    for (rights, attribute, expected) in cases {
        let (mut world, conn, login) = world_with(rights);
        let mut request = world.write_request(&login, vec![(id("Setpoint"), Variant::from(1.0))]);
        request.nodes_to_write.as_mut().unwrap()[0].attribute_id = attribute as u32;
        let response: WriteResponse = world.ask(conn, &request).unwrap();
        assert_eq!(response.results, Some(vec![expected]), "{rights} {attribute:?}");
    }
}
