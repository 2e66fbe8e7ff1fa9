# Generated documents are what the generators would write now.
. "$(dirname -- "$0")/lib.sh"
if [ -f "$ROOT/docs/env.md" ]; then
    scratch
    "$STAGE_RELEASE/bin/gasnet_info" --env-markdown >"$WORK/env.md" 2>&1
    attempt "docs/env.md is current" diff -u "$ROOT/docs/env.md" "$WORK/env.md"
else
    fail "docs/env.md does not exist"
fi
attempt "tables of variables are current" python3 -B "$ROOT/scripts/docs/variable_tables.py" --check
attempt "table of options of configure is current" python3 -B "$ROOT/scripts/docs/configure_options.py" --check
attempt "tests that the manuals cite exist" python3 -B "$ROOT/scripts/docs/cited_tests.py"
attempt "docs/abi-baseline.txt is current" "$ROOT/scripts/check/abi.sh"
attempt "docs/api.md is current" "$ROOT/scripts/docs/api-table.sh" --check
attempt "links on the pages lead somewhere" python3 -B "$ROOT/scripts/docs/links.py" "$ROOT"
attempt "commands on the pages exist" python3 -B "$ROOT/scripts/docs/commands.py" "$STAGE_RELEASE/bin"
attempt "commands on the pages run" python3 -B "$ROOT/scripts/docs/run_commands.py" "$STAGE_RELEASE" "$BUILD"
attempt "clients by their recipes" python3 -B "$ROOT/scripts/check/clients_step.py"
attempt "mutants fit the sources" python3 -B "$ROOT/scripts/mutants/run.py" --check
finish
