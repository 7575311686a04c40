"""Whose rights a command on a host is run with: the one place that decides it.

Where we are root, a program that another account can change is not run as root, nor is a file read as root
that another account can put a link in the place of. The commands made here look, on the host, at every
directory, link and file on the way to some places, and then become the one account that owns them besides
root; where there are several, or where further accounts may write, `nobody`. Whoever is not root runs the
command as it stands.

    $ sh -c SCRIPT triage-rights owner "" 1 /srv/app/bin/python -- /srv/app/bin/python -B -
    (as root: runs it as the owner of /srv/app)

What root alone can change on the whole way stays so; otherwise the account that becomes known is never root,
whatever is changed meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence

from triage.common.errors import RefusedError
from triage.hosts.connection import Connection, Output

NAME = "triage-rights"
REFUSED = 125  # exit status where the rights that are needed cannot be taken
SYSTEM = ("/usr/bin/python3", "/usr/local/bin/python3")
"""Interpreters that run our own programs where the service's is another account's."""

# `uid`, `gid`, `whose` (a path) of the account that owns something on the way; `shared`: what more than one
# may change. A group that nobody is in, as Debian's `staff`, shares nothing. On Ubuntu the daemon of syslog
# may write in /var/log; it writes what is in it anyway. The name of an owner is asked of ls: an old `id` does
# not know numbers. A way without links and odd names is looked at with one `ls`, any other step by step.
_WALK = """
newline=$(printf '\\nx'); newline=${newline%x};
judge() {
    set -f; set -- "$1" $2; set +f;
    if [ "$4" != 0 ]; then
        if [ "$uid" = 0 ]; then uid=$4; gid=$5; whose=$1;
        elif [ "$uid" != "$4" ]; then shared=$1; fi;
    fi;
    case $2 in
        l*|?????????[tT]*) ;;
        ????????w*) shared=$1 ;;
        ?????w*)
            if [ "$1" = /var/log ]; then return 0; fi;
            if [ "$4" = 0 ]; then
                case $5$2 in *+) shared=$1 ;; *) [ "$5" = 0 ] || empty "$5" || shared=$1 ;; esac;
            elif [ "$5" != "$(own_group "$1")" ]; then shared=$1; fi ;;
    esac;
};
name_of() { set -f; set -- $(ls -ld "$1" 2>/dev/null); set +f; echo "$3"; };
empty() {
    case $(getent group "$1" 2>/dev/null) in *:) ;; *) return 1 ;; esac;
    ! getent passwd | cut -d: -f4 | grep -qx "$1";
};
own_group() { id -g -- "$(name_of "$1")" 2>/dev/null; };
straight() {
    case $1 in *[!A-Za-z0-9/._+-]*|*//*|*/./*|*/../*|*/.|*/..) return 1 ;; esac;
    rest=${1#/}; at=; set -- /;
    while [ -n "$rest" ]; do
        at=$at/${rest%%/*}; set -- "$@" "$at";
        case $rest in */*) rest=${rest#*/} ;; *) rest= ;; esac;
    done;
    found=$(LC_ALL=C ls -ldn "$@" 2>/dev/null);
    case $newline$found in *"${newline}l"*) return 1 ;; esac;
    set -f; IFS=$newline; set -- $found; unset IFS; set +f;
    for line; do judge "/${line#* /}" "$line"; done;
};
walk() {
    rest=$1; hops=0;
    case $rest in /*) ;; */*) rest=$PWD/$rest ;; *) rest=$(command -v -- "$rest") || return 0 ;; esac;
    way=$rest; if straight "$way"; then return 0; fi;
    rest=$way; at=; judge / "$(ls -ldn /)";
    while [ -n "$rest" ]; do
        name=${rest%%/*};
        case $rest in */*) rest=${rest#*/} ;; *) rest= ;; esac;
        case $name in ""|.) continue ;; ..) at=${at%/*}; continue ;; esac;
        found=$(ls -ldn "$at/$name" 2>/dev/null) || return 0;
        judge "$at/$name" "$found";
        if [ -L "$at/$name" ]; then
            hops=$((hops + 1)); if [ $hops -gt 40 ]; then return 0; fi;
            to=$(readlink "$at/$name");
            case $to in /*) at= ;; esac;
            rest=$to/$rest;
        else at=$at/$name; fi;
    done;
};
look() { uid=0; gid=0; whose=; shared=; for place; do walk "$place"; done; };
ours() { look "$1"; [ "$uid$shared" = 0 ]; };
"""

# Nothing of root's environment goes along. Without a name in the accounts, the numbers are used.
_BECOME = """
quoted() { for word; do printf "'"; printf %s "$word" | sed "s/'/'\\\\\\\\''/g"; printf "' "; done; };
refuse() { echo "triage-rights: $1" >&2; exit 125; };
become() {
    who=$1; shift; number=$(id -u -- "$who" 2>/dev/null); group=$(id -g -- "$who" 2>/dev/null);
    groups=--init-groups; home=/;
    if [ -z "$number" ]; then
        case $who in *[!0-9]*) refuse "there is no account $who" ;; esac;
        number=$who; group=$gid; groups=--clear-groups;
    else
        case $who in *[!A-Za-z0-9_.-]*) ;; *) eval "home=~$who" ;; esac;
        case $home in /*) ;; *) home=/ ;; esac;
    fi;
    if [ "$number" = 0 ]; then refuse "$who has the rights of root"; fi;
    case $1 in /*) ;; */*) program=$PWD/$1; shift; set -- "$program" "$@" ;; esac;
    cd / || exit 125;
    set -- env -i "PATH=$PATH" "HOME=$home" "USER=$who" "LOGNAME=$who" LC_ALL=C TZ=UTC "$@";
    if setpriv --reuid "$number" --regid "$group" $groups -- id >/dev/null 2>&1; then
        exec setpriv --reuid "$number" --regid "$group" $groups -- "$@";
    fi;
    if [ "$groups" = --clear-groups ]; then
        refuse "no account has the number $number, and there is no setpriv";
    fi;
    if command -v runuser >/dev/null; then exec runuser -u "$who" -- "$@"; fi;
    if command -v su >/dev/null; then exec su -s /bin/sh -c "exec $(quoted "$@")" "$who"; fi;
    if command -v sudo >/dev/null; then exec sudo -n -u "#$number" -- "$@"; fi;
    refuse "there is neither setpriv, runuser, su nor sudo to become $who with";
};
drop() {
    if [ -n "$shared" ]; then become nobody "$@"; fi;
    owner=$(name_of "$whose"); id -u -- "$owner" >/dev/null 2>&1 || owner=$uid;
    become "$owner" "$@";
};
"""

_MAIN = """
mode=$1; user=$2; count=$3; shift 3;
if [ "$(id -u)" = 0 ]; then
    look; places=$count;
    while [ "$places" -gt 0 ]; do walk "$1"; shift; places=$((places - 1)); done;
    shift;
    case $mode in
        service)
            if [ -n "$user" ] && [ "$user" != root ] && [ "$user" != 0 ]; then
                if id -u -- "$user" >/dev/null 2>&1; then become "$user" "$@"; fi;
                become nobody "$@";
            fi ;;
        ours)
            if [ "$uid$shared" != 0 ]; then
                program=$1; shift; was=$uid; owned=$whose; by=$shared; its=$gid;
                for each in SYSTEM; do
                    if [ -x "$each" ] && ours "$each" &&
                        "$each" -I -S -c "import sys; sys.exit(sys.version_info < (3, 7))" 2>/dev/null; then
                        exec "$each" "$@";
                    fi;
                done;
                uid=$was; whose=$owned; shared=$by; gid=$its; set -- "$program" "$@";
            fi ;;
    esac;
    if [ "$uid$shared" != 0 ]; then drop "$@"; fi;
else
    shift "$count"; shift;
fi;
exec "$@"
"""


def _squeezed(script: str) -> str:
    return " ".join(line.strip() for line in script.strip().splitlines())


SCRIPT = _squeezed(f"{_WALK}{_BECOME}{_MAIN}").replace("SYSTEM", " ".join(SYSTEM))


def as_owner(places: Sequence[str], argv: Sequence[str]) -> tuple[str, ...]:
    """`argv`, run as the account that owns the way to `places`: of its program, of files that it reads."""
    return _with("owner", "", places, argv)


def as_service(user: str, places: Sequence[str], argv: Sequence[str]) -> tuple[str, ...]:
    """`argv`, which runs a service's program in its environment, as its `user`; as `as_owner` where that is
    root or not known, and as nobody where it exists only while the service runs."""
    return _with("service", user, places, argv)


def as_ours(argv: Sequence[str]) -> tuple[str, ...]:
    """`argv`, an interpreter with a program of our own that stays root: by an interpreter of `SYSTEM` where
    the named one is another account's, and as that account where there is none."""
    return _with("ours", "", argv[:1], argv)


def is_contained(connection: Connection) -> bool:
    """Whether commands run in a container: there as its service does, which is no account of the host."""
    return bool(getattr(connection, "contained", False))


def refusal(doing: str, to: str, output: Output) -> RefusedError:
    """Why a command was not run, where the exit status is `REFUSED`."""
    said = output.stderr.decode("utf-8", "replace").strip().splitlines()
    happened = said[-1].removeprefix(f"{NAME}: ")[:300] if said else "the rights for it could not be taken"
    return RefusedError(doing, to, happened, "log in as the owner of the files, without --become")


def command_in(argv: Sequence[str]) -> tuple[str, ...]:
    """The command that one of these runs; any other as it is."""
    words = tuple(argv)
    if words[:2] == ("sh", "-c") and words[3:4] == (NAME,):
        return words[8 + int(words[6]) :]
    return words


def _with(mode: str, user: str, places: Sequence[str], argv: Sequence[str]) -> tuple[str, ...]:
    return ("sh", "-c", SCRIPT, NAME, mode, user, str(len(places)), *places, "--", *argv)
