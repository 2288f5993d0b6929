"""``allot kubeconfig``: credentials for another user, signed by the server's own authority."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from allotment.cli.options.data_folder import data_dir_option, folder_of


@click.command(name="kubeconfig")
@click.option("--user", required=True, help="the user name that the server will see")
@click.option("--group", "groups", multiple=True, help="a group of the user; repeatable")
@click.option(
    "--days",
    type=click.IntRange(1, 3650),
    default=365,
    show_default=True,
    help="how many days the credentials are valid",
)
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="write to this file, readable only by you, instead of standard output",
)  # fmt: skip
@data_dir_option
def command(
    user: str, groups: tuple[str, ...], days: int, output: Path | None, data_dir: Path | None
) -> None:
    """Issues credentials: a kubeconfig that authenticates as USER in each GROUP.

    The credentials grant no rights by themselves; bind roles to the user or the groups. The group system:masters may do
    everything.

    \b
    Example:  allot kubeconfig --user jane --group team-a > jane.kubeconfig
              kubectl create rolebinding jane -n team-a \\
                --clusterrole=edit --user=jane
    """
    from allotment.apiserver.auth.certificates import CertificateError, open_authority
    from allotment.apiserver.auth.keyfile import write_whole
    from allotment.apiserver.auth.kubeconfig import kubeconfig
    from allotment.client.connection import KubeconfigError, load
    from allotment.insight.errors import Failure

    folder = folder_of(data_dir)
    if not folder.kubeconfig.exists():
        raise Failure(
            f"{folder.path} contains no server yet", f"start one with: {folder.command('allot up')}"
        )
    try:
        server = load(folder.kubeconfig).server
        now = datetime.now(UTC)
        authority = open_authority(folder.certificates, now)
        credential = authority.issue_client(user, groups, now, timedelta(days=days))
    except (CertificateError, KubeconfigError) as exc:
        raise Failure(str(exc)) from exc
    except ValueError as exc:
        raise Failure(f"--user {user}: {exc}", "names in a certificate have 1 to 64 characters") from exc
    text = kubeconfig(server, authority.certificate, credential.certificate, credential.key, user)
    if output is None:
        click.echo(text, nl=False)
    else:
        write_whole(output, text.encode())
        click.echo(f"{output} is valid until {now + timedelta(days=days):%Y-%m-%d}", err=True)
