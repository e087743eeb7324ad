"""``alphamf plugin``: install the plug-ins for other programs, and remove them."""

import typer

from alphamf.cli import report

plugin = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Install or remove alphamf as a LADSPA, LV2 or (Linux) VST3 plug-in; see docs/plugins.md.",
)


@plugin.command()
def install() -> None:
    """Write the plug-ins to your LADSPA, LV2 and (on Linux) VST3 folders; print their files."""
    from alphamf.native import plugin

    with report.user_errors():
        for place in plugin.install(plugin_file()):
            typer.echo(place)


@plugin.command()
def remove() -> None:
    """Delete the plug-ins from your folders, and print the files that were there."""
    from alphamf.native import plugin

    with report.user_errors():
        for place in plugin.remove():
            typer.echo(place)


@plugin.command()
def path() -> None:
    """Print the files of the installed plug-ins, LADSPA's first."""
    from alphamf.errors import AlphaMFError
    from alphamf.native import plugin

    with report.user_errors():
        there = plugin.installed()
        if not there:
            raise AlphaMFError("no plug-in is installed; run 'alphamf plugin install'")
        for place in there:
            typer.echo(place)


def plugin_file() -> bytes:
    """Return the content of the one file that serves as every plug-in, with shipped networks."""
    from alphamf.denoising.weights import find_online
    from alphamf.native import engine, plugin

    found = [find_online(rate) for rate in (48000, 8000)]
    wide, narrow = (engine.pack(each.dictionary, each.online, 0) for each in found)
    return plugin.plugin(wide, narrow)
