"""`kafka-acls.sh`: adds, removes and lists ACLs.

A command line becomes a table: resource -> rules. `--producer` and `--consumer` create the table that such a
client needs; otherwise each named resource gets each combination of principal, operation and host. As in
Kafka's tool, failures go to standard output and usage errors to standard error. Resources and rules keep the
order of the command line; Kafka's tool has no defined order.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

from ottla.client.admin import Admin
from ottla.client.admin.acls import (
    ANY_HOST,
    CLUSTER_NAME,
    Acl,
    AclFilter,
    AclPermission,
    AclResourceType,
    PatternType,
)
from ottla.client.admin.permissions import AclOperation
from ottla.client.errors import ClientError
from ottla.operations.failure import Failure
from ottla.operations.java_order import text_of
from ottla.tools.admin_connection import open_admin
from ottla.tools.arguments import OptionParser, Options, UsageError
from ottla.tools.entry_point import run
from ottla.wire.errors import KafkaError

_ACTIONS = ("add", "remove", "list")
_NO_RESOURCE = (
    "You must provide at least one resource: --topic <topic> or --cluster or --group <group> or"
    " --delegation-token <Delegation Token ID>"
)
_NAMED = {
    "topic": AclResourceType.TOPIC,
    "group": AclResourceType.GROUP,
    "transactional-id": AclResourceType.TRANSACTIONAL_ID,
    "delegation-token": AclResourceType.DELEGATION_TOKEN,
    "user-principal": AclResourceType.USER,
}
_PRODUCER = {
    AclResourceType.TOPIC: (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE),
    AclResourceType.TRANSACTIONAL_ID: (AclOperation.WRITE, AclOperation.DESCRIBE),
}
_CONSUMER = {
    AclResourceType.TOPIC: (AclOperation.READ, AclOperation.DESCRIBE),
    AclResourceType.GROUP: (AclOperation.READ,),
}
_SETTINGS = (AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS)
_POSSIBLE = {
    AclResourceType.TOPIC: {
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DESCRIBE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        *_SETTINGS,
    },
    AclResourceType.GROUP: {AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DELETE, *_SETTINGS},
    AclResourceType.CLUSTER: {
        AclOperation.CREATE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.IDEMPOTENT_WRITE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        *_SETTINGS,
    },
    AclResourceType.TRANSACTIONAL_ID: {
        AclOperation.DESCRIBE,
        AclOperation.WRITE,
        AclOperation.TWO_PHASE_COMMIT,
    },
    AclResourceType.DELEGATION_TOKEN: {AclOperation.DESCRIBE},
    AclResourceType.USER: {AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS},
}
"""The operations of each resource type, besides ALL."""


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource, or the resources that a pattern matches."""

    kind: AclResourceType
    name: str
    pattern: PatternType

    def __str__(self) -> str:
        return (
            f"ResourcePattern(resourceType={self.kind.name}, name={self.name},"
            f" patternType={self.pattern.name})"
        )


@dataclass(frozen=True, slots=True)
class Rule:
    """A permission: principal, operation, host, and whether it is allowed or denied."""

    principal: str
    host: str
    operation: AclOperation
    permission: AclPermission

    def __str__(self) -> str:
        return (
            f"(principal={self.principal}, host={self.host}, operation={self.operation.name},"
            f" permissionType={self.permission.name})"
        )


Wanted = dict[Resource, list[Rule]]
_CLUSTER = Resource(AclResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool; return the exit code."""
    return run(_parser(), _work, arguments)


def _parser() -> OptionParser:
    parser = OptionParser("kafka-acls", "This tool helps to manage acls on kafka.")
    parser.value("bootstrap-server", shown_as="host:port", text="Brokers to connect to.")
    parser.value("bootstrap-controller", shown_as="host:port", text="Controllers to connect to instead.")
    parser.value(
        "command-config",
        shown_as="file",
        text="Properties file for the admin client.",
        value_is_optional=True,
    )
    parser.flag("add", text="Add rules.")
    parser.flag("remove", text="Remove rules.")
    parser.flag("list", text="List the ACLs of the given resources, or all.")
    parser.value("topic", shown_as="topic", text="A topic; * means all topics.")
    parser.flag("cluster", text="The cluster itself.")
    parser.value("group", shown_as="group", text="A group; * means all groups.")
    parser.value("transactional-id", shown_as="id", text="A transactional id; * means all.")
    parser.value("delegation-token", shown_as="token", text="A delegation token; * means all.")
    parser.value(
        "user-principal", shown_as="principal", text="A user principal, as the resource of an ACL on tokens."
    )
    parser.value(
        "resource-pattern-type",
        shown_as="LITERAL|PREFIXED|MATCH|ANY",
        text="How to match names. ACLs are added for LITERAL names or PREFIXED patterns. For --list and "
        "--remove there are also ANY, which finds both kinds by their exact name, and MATCH, which "
        "finds every ACL that applies to the name: use it with care when removing.",
        convert=_pattern_type,
        default="LITERAL",
    )
    names = ", ".join(_pascal(one) for one in AclOperation if one > AclOperation.ANY)
    parser.value(
        "operation", shown_as="operation", text=f"Operations to allow or deny: {names}. (default: All)"
    )
    parser.value("allow-principal", shown_as="type:name", text="Principals to allow; User:* means everyone.")
    parser.value(
        "deny-principal", shown_as="type:name", text="Principals to deny; takes precedence over allowed ones."
    )
    parser.value(
        "principal", shown_as="type:name", text="List the ACLs of this principal.", value_is_optional=True
    )
    parser.value("allow-host", shown_as="host", text="Hosts to allow. Default: all.")
    parser.value("deny-host", shown_as="host", text="Hosts to deny. Default: all.")
    parser.flag(
        "producer",
        text="The ACLs of a producer: WRITE, DESCRIBE and CREATE on --topic, and those on "
        "--transactional-id.",
    )
    parser.flag(
        "idempotent", text="With --producer: also allow idempotent writes, which older clusters require."
    )
    parser.flag("consumer", text="The ACLs of a consumer: READ and DESCRIBE on --topic, READ on --group.")
    parser.flag("force", text="Remove without confirmation.")
    return parser


def _work(options: Options) -> int:
    _check(options)
    try:
        config = options.value("command-config")
        if options.has("command-config") and config is None:
            print("Did not load any properties since the property file is not specified")
        with open_admin(
            servers=options.value("bootstrap-server"),
            controllers=options.value("bootstrap-controller"),
            config=config,
        ) as admin:
            if options.has("add"):
                _add(admin, options)
            elif options.has("remove"):
                _remove(admin, options)
            else:
                _list(admin, options)
    except UsageError as error:
        if error.help_text:
            raise
        print(f"Error while executing ACL command: {error}")
        return 1
    except (Failure, KafkaError, ClientError) as error:
        print(f"Error while executing ACL command: {text_of(error)}")
        return 1
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        print(f"Error while executing ACL command: {error.filename}: {error.strerror}")
        return 1
    return 0


# The command line


def _check(options: Options) -> None:
    parser = options.parser
    ways = [options.has("bootstrap-server"), options.has("bootstrap-controller")]
    if sum(ways) != 1:
        start = "Only one" if all(ways) else "One"
        raise parser.error(f"{start} of --bootstrap-server or --bootstrap-controller must be specified")
    if sum(map(options.has, _ACTIONS)) != 1:
        raise parser.error("Command must include exactly one action: --list, --add, --remove. ")
    changing = ("producer", "consumer", "allow-host", "allow-principal", "deny-host", "deny-principal")
    options.check_invalid("list", *changing)
    for role in ("producer", "consumer"):
        options.check_invalid(role, "operation", "deny-principal", "deny-host")
    if options.has("principal") and not options.has("list"):
        raise parser.error("The --principal option is only available if --list is set")
    if options.has("producer") and not options.has("topic"):
        raise parser.error("With --producer you must specify a --topic")
    if options.has("idempotent") and not options.has("producer"):
        raise parser.error("The --idempotent option is only available if --producer is set")
    if options.has("consumer"):
        too_much = options.has("cluster") or options.has("transactional-id")
        named = options.has("topic") and options.has("group")
        if not named or (too_much and not options.has("producer")):
            raise parser.error(
                "With --consumer you must specify a --topic and a --group and no --cluster or"
                " --transactional-id option should be specified."
            )


def _pattern_type(text: str) -> PatternType:
    name = text.upper()
    if name not in PatternType.__members__ or name == PatternType.UNKNOWN.name:
        raise ValueError(text)
    return PatternType[name]


def _pattern_of(options: Options) -> PatternType:
    found = options.value("resource-pattern-type")
    return found if isinstance(found, PatternType) else PatternType.LITERAL


def _pascal(operation: AclOperation) -> str:
    return "".join(word.capitalize() for word in operation.name.split("_"))


_OPERATIONS = {
    name: operation
    for operation in AclOperation
    if operation > AclOperation.UNKNOWN
    for name in (_pascal(operation), _pascal(operation).upper())
}


def _operation(text: str) -> AclOperation:
    """Parse an operation such as DescribeConfigs, in any case."""
    found = _OPERATIONS.get(text) or _OPERATIONS.get(text.upper())
    return AclOperation.UNKNOWN if found is None else found


def _resources(options: Options) -> list[Resource]:
    """The resources on the command line."""
    pattern = _pattern_of(options)
    found = [
        Resource(kind, name.strip() if kind != AclResourceType.TRANSACTIONAL_ID else name, pattern)
        for option, kind in _NAMED.items()
        for name in options.values(option)
    ]
    if pattern == PatternType.LITERAL and (options.has("cluster") or options.has("idempotent")):
        found.append(_CLUSTER)
    return list(dict.fromkeys(found))


def _principals(options: Options, option: str) -> list[str]:
    found = []
    for text in options.values(option):
        kind, colon, name = text.strip().partition(":")
        if not colon:
            raise Failure(f"expected a string in format principalType:principalName but got {text.strip()}")
        found.append(f"{kind}:{name}")
    return list(dict.fromkeys(found))


def _rules(options: Options, operations: Iterable[AclOperation]) -> list[Rule]:
    """Each combination of principal, operation and host, allowed ones first."""
    found = []
    for word, permission in (("allow", AclPermission.ALLOW), ("deny", AclPermission.DENY)):
        principals = _principals(options, f"{word}-principal")
        hosts = [host.strip() for host in options.values(f"{word}-host")] or [ANY_HOST]
        found += [
            Rule(principal, host, operation, permission)
            for principal, operation, host in product(principals, operations, hosts)
        ]
    return list(dict.fromkeys(found))


def _wanted(options: Options) -> Wanted:
    """The rules for each resource on the command line."""
    wanted: Wanted = {}
    if options.has("producer") or options.has("consumer"):
        roles = [
            table for name, table in (("producer", _PRODUCER), ("consumer", _CONSUMER)) if options.has(name)
        ]
        for resource in _resources_or_fail(options):
            for table in roles:
                if resource.kind in table:
                    rules = wanted.setdefault(resource, [])
                    rules += [rule for rule in _rules(options, table[resource.kind]) if rule not in rules]
        if options.has("idempotent"):
            wanted[_CLUSTER] = _rules(options, [AclOperation.IDEMPOTENT_WRITE])
    else:
        texts = options.values("operation")
        rules = _rules(options, [_operation(text.strip()) for text in texts] or [AclOperation.ALL])
        wanted = dict.fromkeys(_resources_or_fail(options), rules)
    _check_operations(options, wanted)
    return wanted


def _resources_or_fail(options: Options) -> list[Resource]:
    found = _resources(options)
    if not found:
        raise options.parser.error(_NO_RESOURCE)
    return found


def _check_operations(options: Options, wanted: Wanted) -> None:
    for resource, rules in wanted.items():
        possible = _POSSIBLE[resource.kind] | {AclOperation.ALL}
        if any(rule.operation not in possible for rule in rules):
            names = ", ".join(one.name for one in sorted(possible))
            raise options.parser.error(
                f"ResourceType {resource.kind.name} only supports operations [{names}]"
            )


# Execution


def _add(admin: Admin, options: Options) -> None:
    pattern = _pattern_of(options)
    if pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise options.parser.error(
            f"A '--resource-pattern-type' value of '{pattern.name}' is not valid when adding acls."
        )
    wanted = _wanted(options)
    if not all(wanted.values()):
        raise options.parser.error(
            "You must specify one of: --allow-principal, --deny-principal when trying to add ACLs."
        )
    for resource, rules in wanted.items():
        existing = set(admin.describe_acls(_filter(resource)))
        new = []
        for rule in rules:
            acl = _acl(resource, rule)
            if acl in existing:
                print(f"Acl (pattern={resource}, entry={rule}) already exists.")
            else:
                new.append((rule, acl))
        if new:
            listed = "\n".join(f"\t{rule}" for rule, _ in new)
            print(f"Adding ACLs for resource `{resource}`: \n {listed}\n")
            admin.create_acls([acl for _, acl in new]).all()


def _remove(admin: Admin, options: Options) -> None:
    for resource, rules in _wanted(options).items():
        if rules:
            listed = "\n".join(f"\t{rule}" for rule in rules)
            question = f"Are you sure you want to remove ACLs: \n {listed}\n from"
            question += f" resource filter `{resource}`? (y/n)"
        else:
            question = f"Are you sure you want to delete all ACLs for resource filter `{resource}`? (y/n)"
        if options.has("force") or _confirmed(question):
            filters = [_filter(resource, rule) for rule in rules] or [_filter(resource)]
            admin.delete_acls(filters).all()


def _confirmed(question: str) -> bool:
    print(question, flush=True)
    answer = sys.stdin.readline()
    if not answer:
        raise Failure("Confirmation is required: use --force when not on a terminal.")
    return answer.strip().lower() == "y"


def _list(admin: Admin, options: Options) -> None:
    resources = _resources(options)
    principals = _principals(options, "principal")
    found: dict[Resource, list[Rule]] = {}
    for by in [_filter(resource) for resource in resources] or [AclFilter()]:
        for acl in admin.describe_acls(by):
            rules = found.setdefault(Resource(acl.resource_type, acl.resource_name, acl.pattern_type), [])
            rule = Rule(acl.principal, acl.host, acl.operation, acl.permission)
            if rule not in rules:
                rules.append(rule)
    if not principals:
        _print_rules(found)
    for principal in principals:
        print(f"ACLs for principal `{principal}`")
        theirs = {
            resource: [rule for rule in rules if rule.principal == principal]
            for resource, rules in found.items()
        }
        _print_rules({resource: rules for resource, rules in theirs.items() if rules})


def _print_rules(found: Wanted) -> None:
    for resource, rules in found.items():
        listed = "\n".join(f"\t{rule}" for rule in rules)
        print(f"Current ACLs for resource `{resource}`:\n{listed}\n")


def _acl(resource: Resource, rule: Rule) -> Acl:
    return Acl(
        resource.kind,
        resource.name,
        rule.principal,
        rule.operation,
        rule.permission,
        rule.host,
        resource.pattern,
    )


def _filter(resource: Resource, rule: Rule | None = None) -> AclFilter:
    if rule is None:
        return AclFilter(resource.kind, resource.name, pattern_type=resource.pattern)
    return AclFilter(
        resource.kind,
        resource.name,
        rule.principal,
        rule.operation,
        rule.permission,
        rule.host,
        resource.pattern,
    )


if __name__ == "__main__":
    sys.exit(main())
