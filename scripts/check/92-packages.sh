# Packages: in every check that debian/ and the recipes of other systems fit the tree; in check-all
# those tools read the recipes, and Debian's packages are built from a release, offline, twice in
# different places with the same bytes, judged by lintian, compared with RPMs, installed, tried, and
# removed.
. "$(dirname -- "$0")/lib.sh"
scratch
cd "$ROOT" || exit 1
triplet=$("$CC" -print-multiarch 2>/dev/null)
triplet=${triplet:-$(uname -m)-linux-gnu}

# ---- debian/ itself ----
version=$(sed -n 's/^VERSION=//p' scripts/common.sh)+$(sed \
    -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
same "packages: debian/changelog has the release's version" \
    "$(sed -n '1s/.*(\(.*\)-[0-9.]*).*/\1/p' debian/changelog)" "$version"
for file in "^Version: .* \(.*\)$|scripts/rpm/gasnet.spec" '^  version: "\(.*\)"|scripts/conda/recipe.yaml' \
    "^version = '\(.*\)'|$(echo scripts/easybuild/*.eb)" \
    '^    version("\(.*\)")|scripts/spack/packages/gasnet/package.py'; do
    same "packages: ${file#*|} has the release's version" "$(sed -n "s/${file%|*}/\1/p" "${file#*|}")" "${version%+*}"
done
packages=$(sed -n 's/^Package: //p' debian/control)
odd=
for script in debian/arrange debian/list debian/symbols debian/tests/installed; do
    sh -n "$script" || odd="$odd $script"
done
for name in $packages; do
    [ -s "debian/$name.install" ] || odd="$odd $name-has-no-.install"
done
for file in debian/*.install debian/*.lintian-overrides; do
    name=${file##*/}
    grep -q "^Package: ${name%.*}\$" debian/control || odd="$odd $file-of-no-package"
done
# dist.sh leaves out the sources of the crates for Windows.
crates=$(sed -n 's/^name = "\(.*\)"/\1/p' Cargo.lock | grep -v -e '^gasnet' -e '^windows-' | sort -u)
for crate in $crates; do grep -q "vendor/$crate-\*" debian/copyright || odd="$odd debian/copyright-lacks-$crate"; done
good "packages: debian/ is consistent" "$odd"

in_check_all "packages: recipes, layout, building, installing and removing them"

# ---- recipes of other systems, read by their own tools ----
if has_tool rpmspec "packages: RPM" && has_tool rpmlint "packages: RPM"; then
    attempt "packages: rpmspec reads the RPM specification" rpmspec -P scripts/rpm/gasnet.spec
    rpmlint -r scripts/rpm/rpmlintrc scripts/rpm/gasnet.spec >"$WORK/rpmlint" 2>&1
    same "packages: rpmlint finds no error and no warning" "$(grep ': [EW]: ' "$WORK/rpmlint" | head -n 5)" ""
fi
python=$BUILD/py-rattler-build/bin/python
if has_tool "$python" "packages: conda"; then
    attempt "packages: rattler-build renders the recipe" "$python" -B scripts/check/conda_recipe.py scripts/conda
fi
lmod=/usr/share/lmod/lmod/libexec/lmod
if has_tool $lmod "packages: modulefile and EasyBuild"; then
    # shellcheck disable=SC2016 # for that shell
    attempt "packages: Lmod loads the modulefile" env MODULEPATH="$STAGE_RELEASE/share/modulefiles" bash -c \
        'eval "$("$1" bash load gasnet)" && [ "$(command -v gasnet_info)" = "$2/bin/gasnet_info" ]' \
        bash $lmod "$STAGE_RELEASE"
    if has_tool "$BUILD/easybuild/bin/eb" "packages: EasyBuild"; then
        # It also reads those of all that the build depends on.
        attempt "packages: EasyBuild's steps for the easyconfig" env HOME="$WORK" LMOD_CMD=$lmod \
            EB_PYTHON="$BUILD/easybuild/bin/python" "$BUILD/easybuild/bin/eb" --extended-dry-run \
            --allow-use-as-root-and-accept-consequences \
            --modules-tool=Lmod --robot --prefix="$WORK/easybuild" scripts/easybuild/*.eb
    fi
fi

# ---- the layout, from an installation as debian/rules makes it ----
tmp=$WORK/tmp
attempt "packages: make install as debian/rules calls it" make --no-print-directory -C "$ROOT" install \
    CONDUITS="$(scripts/build/conduits.sh)" MODES="seq parsync par" DEBUG=0 LIBDIR_SO=1 \
    PREFIX="/usr/lib/$triplet/gasnet" DESTDIR="$tmp"
attempt "packages: debian/arrange" debian/arrange "$tmp" "lib/$triplet"
(cd "$tmp" && find . ! -type d | sed 's|^\./||' | sort) >"$WORK/files"
: >"$WORK/packaged"
for name in $packages; do
    debian/list "$tmp" "lib/$triplet" "$name" >>"$WORK/packaged" ||
        fail "packages: a pattern of $name.install matches nothing"
done
sort "$WORK/packaged" >"$WORK/sorted"
attempt "packages: every file is in one package" diff "$WORK/files" "$WORK/sorted"
good "packages: no link dangles" "$(find "$tmp" -xtype l -printf ' %P')"
good "packages: no file names the place where it was built" \
    "$(grep -rlF -e "$ROOT" -e "$BUILD" -e "$tmp" "$tmp" | sed 's/^/ /' | head -n 3)"
good "packages: no .pc file has a run path" "$(grep -rl rpath "$tmp" --include='*.pc' | sed 's/^/ /' | head -n 3)"
attempt "packages: debian/symbols" sh -c "debian/symbols '$tmp/usr/lib/$triplet' >'$WORK/symbols'"
for name in gasnet gasnet-smp-par gasnet-udp-seq gasnet_tools-seq; do
    node=$(printf %s "$name" | tr 'a-z-' 'A-Z_')_0
    grep "@$node $version\$" "$WORK/symbols" | sed 's/^ \(.*\)@.*/\1/' | sort >"$WORK/listed"
    nm -D --defined-only "$tmp/usr/lib/$triplet/lib$name.so.0" | awk '{ sub(/@.*/, "", $3); print $3 }' |
        sort >"$WORK/defined"
    attempt "packages: symbols of $name" diff "$WORK/listed" "$WORK/defined"
done

# ---- the packages ----
# A toolchain of rustup is no package.
dpkg -s rustc cargo >/dev/null 2>&1 || export DEB_BUILD_PROFILES=pkg.gasnet.rustup
attempt "packages: make dist" make -s -C "$ROOT" dist BUILD="$WORK/dist"
built() { # FOLDER: unpacks the release there and builds
    mkdir -p "$1" && cd "$1" && tar -xzf "$WORK"/dist/GASNet-*.tar.gz && cd GASNet-* && dpkg-buildpackage -us -uc -b
}
attempt "packages: dpkg-buildpackage" built "$WORK/one" || finish
(umask 027 && TZ=Asia/Tokyo LC_ALL=C.UTF-8 && export TZ LC_ALL &&
    attempt "packages: dpkg-buildpackage in another place" built "$WORK/another/place")
odd=
for package in "$WORK"/one/*.deb; do
    cmp -s "$package" "$WORK/another/place/${package##*/}" || odd="$odd ${package##*/}"
done
good "packages: both builds have the same bytes ($(find "$WORK/one" -name '*.deb' | wc -l) packages)" "$odd"
lintian --no-cfg --allow-root --fail-on error,warning "$WORK"/one/*.changes >"$WORK/lintian" 2>&1
same "packages: lintian finds no error and no warning" "$(grep '^[EW]:' "$WORK/lintian" | head -n 5)" ""

# RPMs, from the release, of the libraries above.
rpm_files() {
    for _package in "$WORK"/rpm/RPMS/*/*.rpm; do
        rpm -qp --qf '[%{FILEMODES:perms} %{FILENAMES}\n]' "$_package"
    done | sed -e '/^d/d' -e '\#/licenses/\|/CHANGELOG.md$#d' -e 's#^[^ ]* /##' -e 's#\(/man/.*\)\.gz$#\1#' \
        -e "s#^usr/lib64/#usr/lib/$triplet/#" -e 's#zsh/site-functions#zsh/vendor-completions#' | sort
}
if has_tool rpmbuild "packages: RPM"; then
    attempt "packages: rpmbuild" rpmbuild -tb --nodeps --define "_topdir $WORK/rpm" --define 'debug_package %{nil}' \
        --define '_build_id_links none' --define "__make make -C $ROOT BUILD=$BUILD" "$WORK"/dist/GASNet-*.tar.gz
    rpm_files >"$WORK/sorted"
    attempt "packages: RPMs have the files of Debian's packages" diff "$WORK/files" "$WORK/sorted"
fi

for package in libgasnet0 gasnet-bin; do dpkg-deb -x "$WORK/one/${package}_"*.deb "$WORK/root"; done
odd=
for file in "$WORK/root/usr/lib/$triplet"/lib*.so.*.* "$WORK/root/usr/lib/$triplet/gasnet/bin"/gasnetrun_smp \
    "$WORK/root/usr/lib/$triplet/gasnet/bin"/gasnet_info; do
    readelf -lW "$file" | grep -q GNU_RELRO || odd="$odd ${file##*/}:relro"
    readelf -dW "$file" | grep -Eq 'BIND_NOW|FLAGS.*NOW' || odd="$odd ${file##*/}:bindnow"
    readelf -lW "$file" | grep -q 'GNU_STACK .*RW ' || odd="$odd ${file##*/}:stack"
    readelf -hW "$file" | grep -q 'Type: *DYN' || odd="$odd ${file##*/}:pie"
done
good "packages: libraries and programs are hardened" "$odd"

if [ "$(id -u)" -ne 0 ]; then
    skip "packages: installing them needs root"
    finish
fi
# shellcheck disable=SC2086 # names
if dpkg-query -W -f '${Status} ${Package}\n' $packages 2>/dev/null | grep -q '^install'; then
    skip "packages: some of them are installed here; they are left alone"
    finish
fi
remove() {
    # shellcheck disable=SC2086
    dpkg --purge $packages >"$WORK/purged" 2>&1
}
trap 'remove; rm -rf "$WORK"' EXIT
chosen=
places() {
    find /usr/bin /usr/lib/"$triplet" /usr/share/man /usr/share/doc /usr/share/lintian /etc /usr/include \( \
        -name '*gasnet*' -o -name '*GASNet*' -o -name 'gex_*' \) 2>/dev/null | sort
}
places >"$WORK/before"
for package in "$WORK"/one/*.deb; do case $package in *dbgsym*) ;; *) chosen="$chosen $package" ;; esac; done
# shellcheck disable=SC2086
if attempt "packages: they install" dpkg -i $chosen; then
    attempt "packages: an installed client (debian/tests/installed)" debian/tests/installed
    attempt "packages: man finds a function" man -w gex_RMA_PutNB
    odd=
    for file in "/usr/lib/$triplet/gasnet/include/smp-conduit/smp-par.mak" \
        "/usr/lib/$triplet/gasnet/include/gasnet_config.h" /usr/lib/"$triplet"/pkgconfig/gasnet*.pc; do
        if grep -qF -e "$WORK" -e "$ROOT" -e /debian/ "$file"; then odd="$odd $file"; fi
    done
    good "packages: installed settings do not name the place where they were built" "$odd"
fi
# shellcheck disable=SC2086
attempt "packages: they can be removed" dpkg --purge $packages
places >"$WORK/after"
attempt "packages: nothing is left" diff "$WORK/before" "$WORK/after"
finish
