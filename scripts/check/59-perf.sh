# gasnet_perf: every test runs, at odd numbers of ranks, with threads, over a network, and its files
# can be read. Times are not checked.
. "$(dirname -- "$0")/lib.sh"
scratch
run=$STAGE_RELEASE/bin/gasnetrun
program=$STAGE_RELEASE/bin/gasnet_perf
quick="-b 1 -d 1 -m 64:256"
# With more ranks or threads than cores, a busy machine makes every wait long: only a few tests.
few="-b 1 -d 1 -m 64:64 am-short,am-medium-flood,put,put-2d,ad-fadd,barrier-team,allreduce"

"$program" --list | sed '$d' | awk '{ print $1 }' >"$WORK/names"
# all_rows NAME COMMAND...: succeeds and has a line for every test.
all_rows() {
    _name=$1
    shift
    timeout 600 "$@" >"$WORK/out" 2>&1
    _status=$?
    if [ $_status -ne 0 ]; then
        fail "perf: $_name: exit status $_status: $(tail -n 2 "$WORK/out" | tr '\n' ' ')"
        return
    fi
    missing=$(awk '$1 != "#" { print $1 }' "$WORK/out" | sort -u | comm -13 - "$WORK/sorted" | tr '\n' ' ')
    if [ -z "$missing" ]; then pass "perf: $_name"; else fail "perf: $_name: nothing about $missing"; fi
}
sort -u "$WORK/names" >"$WORK/sorted"
if [ "$(wc -l <"$WORK/sorted")" -lt 50 ]; then fail "perf: --list names $(wc -l <"$WORK/sorted") tests only"; fi

# shellcheck disable=SC2086 # options are words
{
    all_rows "2 ranks, limits, files" "$run" -n 2 "$program" $quick --limits --json "$WORK/p.json" --svg "$WORK/p.svg"
    all_rows "1 rank" "$run" -n 1 "$program" -b 2 -d 1 -m 1:1M
    attempt "perf: 3 ranks" timeout 600 "$run" -n 3 "$program" $few
    attempt "perf: 2 ranks, 3 threads" timeout 600 "$run" -n 2 "$program" -t 3 -w 5 -s --pin $few
    attempt "perf: 2 ranks over a network" timeout 600 env GASNET_SUPERNODE_MAXSIZE=1 "$run" -n 2 "$program" $few
    all_rows "debug flavour" "$STAGE_DEBUG/bin/gasnetrun" -n 2 "$STAGE_DEBUG/bin/gasnet_perf" $quick
}
attempt "perf: JSON and SVG can be read" python3 -B - "$WORK/p.json" "$WORK/p.svg" "$WORK/names" <<'PYTHON'
import json, sys, xml.dom.minidom
report = json.load(open(sys.argv[1]))
names = set(open(sys.argv[3]).read().split())
assert report["ranks"] == 2 and report["conduit"] == "smp", report["conduit"]
assert {r["test"] for r in report["results"]} == names, names ^ {r["test"] for r in report["results"]}
assert all(r["us"] > 0 and r["us_low"] <= r["us"] <= r["us_high"] for r in report["results"])
assert any("limit_us" in r for r in report["results"])
image = xml.dom.minidom.parse(sys.argv[2])
assert len(image.getElementsByTagName("polyline")) >= 40
PYTHON
# A page of a run, and one that compares two reports.
attempt "perf: --html, on a terminal" script -qec \
    "'$run' -n 2 '$program' -b 210 -d 10 -m 64:128 --html '$WORK/p.html' --json '$WORK/q.json' put" "$WORK/terminal"
attempt "perf: progress on a terminal" \
    sh -c "grep -q 'measuring the limits' '$WORK/terminal' && grep -q 'put, 64 bytes: 210 blocks' '$WORK/terminal'"
attempt "perf: --reports" "$program" --html "$WORK/two.html" --reports "$WORK/p.json,$WORK/q.json"
if has_tool node "perf: pages"; then
    page() {
        node "$ROOT/scripts/check/perf_page.js" "$1" |
            python3 -c "import json, sys; p = json.load(sys.stdin); assert $2, p"
    }
    attempt "perf: page of a run" page "$WORK/p.html" \
        "p['sections'] == ['put', 'numbers'] and p['curves'] == p['limits'] == 2 and p['rows'] == 2 and not p['ratios']"
    attempt "perf: page of two reports" page "$WORK/two.html" \
        "len(p['sections']) > 30 and len([r for r in p['ratios'] if r != '–']) > 0 and p['rows'] > 50"
fi
attempt "perf: JSON on standard output" \
    sh -c "'$run' -n 2 '$program' $quick --json - put-value 2>'$WORK/table' | python3 -c 'import json, sys; json.load(sys.stdin)' && grep -q put-value '$WORK/table'"
attempt "perf: compare.py" \
    sh -c "python3 -B '$ROOT/programs/benches/compare.py' --runs 2 one='$program' other='$program' -- $quick put,barrier-team >'$WORK/table' &&
    grep -Eq '^[|] put [|] 64 ([|] [0-9.e-]+ ){5}[|]$' '$WORK/table'"
attempt "perf: compare.py by size" \
    sh -c "python3 -B '$ROOT/programs/benches/compare.py' --by-size --sizes 8:8,4k:4k --runs 1 \
    one='$program' other='$program' -- -b 1 -d 1 put,barrier-team >'$WORK/table' &&
    grep -Eq '^[|] put ([|] [0-9.e-]+; [0-9.]+ ){2}[|]$' '$WORK/table' &&
    grep -Eq '^[|] barrier-team [|] [0-9.e-]+; [0-9.]+ [|]  [|]$' '$WORK/table'"
# shellcheck disable=SC2046 # flags are words
attempt "perf: compile count.c" "$CC" -O2 -Wall -Wextra -Werror -o "$WORK/count" "$ROOT/programs/benches/count.c" \
    $(PKG_CONFIG_PATH=$STAGE_RELEASE/lib/pkgconfig pkg-config --cflags --libs gasnet-smp-par)
if [ "$SCOPE" = all ] && command -v valgrind >/dev/null; then
    attempt "perf: count.py" \
        sh -c "python3 -B '$ROOT/programs/benches/count.py' --count 20 one='%s $WORK/count' put short >'$WORK/table' &&
        grep -Eq '^[|] put [|] [1-9][0-9,]* [(]0[)] [|]$' '$WORK/table' &&
        grep -Eq '^[|] short [|] [0-9,]+ [(][0-9]+[)]; [0-9,]+ [(][0-9]+[)] [|]$' '$WORK/table'"
else
    skip "perf: count.py: runs in make check-all, with valgrind"
fi
attempt "perf: --start" \
    sh -c "'$program' --start 1,3 -b 2 --json '$WORK/s.json' && '$program' --start 2 -b 1 --launcher '$run -n %d' &&
    python3 -c \"import json; r = json.load(open('$WORK/s.json'))['results']; assert len(r) == 12 and all(x.get('us', x.get('kib', 0)) > 0 for x in r)\""
# shellcheck disable=SC2086 # options are words
attempt "perf: --wait" timeout 100 "$run" -n 3 "$program" $quick --wait block barrier-team
attempt "perf: limits alone" \
    sh -c "$CC -std=c11 -O2 -Wall -Wextra -Werror -I'$ROOT/programs/perf' '$ROOT/programs/benches/limits.c' '$ROOT/programs/perf/limits.c' -o '$WORK/limits' && '$WORK/limits' 2 3 | grep -q 'barrier of 3 processes'"
# The runtime's own part of operations over a network: another build of the library.
if [ "$SCOPE" = all ]; then
    attempt "perf: build with conduit null" make --no-print-directory -C "$ROOT" install CONDUITS=null MODES=par \
        UNIVERSAL=0 DESTDIR= PREFIX="$BUILD/null" &&
        attempt "perf: operations of a network do not allocate" "$ROOT/programs/benches/null.sh" "$BUILD/null" 200
else
    skip "perf: operations over conduit null: run in make check-all"
fi
for words in "-x 1" "-m 0:8" "-m 8:4" "-b 0" "-t x" "nothing" "-w" "--start 0" "--start 2,x" "--wait long" \
    "--reports a.json" "--start 2 --html a.html"; do
    # shellcheck disable=SC2086
    timeout 20 "$program" $words >"$WORK/out" 2>&1
    status=$?
    if [ $status -eq 2 ] && grep -q '^gasnet_perf: ' "$WORK/out"; then
        pass "perf: refuses $words"
    else
        fail "perf: $words: exit status $status"
    fi
done
# shellcheck disable=SC2086
timeout 60 "$run" -n 2 "$program" $quick --json /dev/full put-value >"$WORK/out" 2>&1
status=$?
if [ $status -eq 1 ] && grep -q 'could not be written' "$WORK/out"; then
    pass "perf: a full disk is an error"
else
    fail "perf: a full disk: exit status $status"
fi
finish
