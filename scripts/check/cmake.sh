# Sourced by the step install: find_package(GASNet) in projects that are not plain. Needs its
# functions, WORK and HELLO.

# cmake_project FOLDER LANGUAGES: a project of the lines on standard input.
cmake_project() {
    mkdir -p "$1"
    { printf 'cmake_minimum_required(VERSION 3.16)\nproject(hello %s)\n' "$2" && cat; } >"$1/CMakeLists.txt"
}
cmake_in() { # FOLDER OPTION...
    _folder=$1
    shift
    rm -rf "$_folder/build"
    cmake -S "$_folder" -B "$_folder/build" "$@" && cmake --build "$_folder/build"
}
cmake_hello() { # PROGRAM SOURCE
    printf 'find_package(GASNet REQUIRED)\nadd_executable(%s "%s")\ntarget_link_libraries(%s GASNet::smp-par)\n' \
        "$1" "$2" "$1"
}

# Spaces in the names of prefix and project.
mkdir "$WORK/a prefix"
cp -R "$STAGE_RELEASE/include" "$STAGE_RELEASE/lib" "$WORK/a prefix"
cmake_hello hello "$HELLO" | cmake_project "$WORK/a client" C
if attempt "install: CMake with spaces in paths" cmake_in "$WORK/a client" -DCMAKE_PREFIX_PATH="$WORK/a prefix"; then
    expect "install: CMake with spaces in paths runs" "$WORK/a client/build/hello"
fi

# The names of the reference's development branch.
cmake_project "$WORK/cmake-gasnet" C <<EOF
find_package(GasNet 2025.8 REQUIRED COMPONENTS gasnet-smp-par gasnet_tools-seq)
if(NOT GasNet_FOUND)
  message(FATAL_ERROR "not found")
endif()
add_executable(hello "$HELLO")
target_link_libraries(hello gasnet-smp-par)
file(WRITE tools.c "#include <gasnet_tools.h>\nint main(void) { return gasnett_ticks_now() == 0; }\n")
add_executable(tools tools.c)
target_link_libraries(tools gasnet_tools-seq)
EOF
if attempt "install: CMake by find_package(GasNet)" cmake_in "$WORK/cmake-gasnet" \
    -DCMAKE_PREFIX_PATH="$STAGE_RELEASE"; then
    expect "install: CMake by find_package(GasNet) runs" "$WORK/cmake-gasnet/build/hello"
    attempt "install: tools by find_package(GasNet) run" "$WORK/cmake-gasnet/build/tools"
fi
echo 'find_package(GasNet REQUIRED COMPONENTS gasnet-smp-none)' | cmake_project "$WORK/cmake-missing" C
if cmake_in "$WORK/cmake-missing" -DCMAKE_PREFIX_PATH="$STAGE_RELEASE" >"$WORK/messages" 2>&1; then
    fail "install: find_package(GasNet) accepts a component that does not exist"
else
    attempt "install: find_package(GasNet) names a missing component" \
        grep -q "has no 'gasnet-smp-none'" "$WORK/messages"
fi

# FindThreads would need C or C++.
cat >"$WORK/hello.f90" <<'EOF'
program hello
  use, intrinsic :: iso_c_binding
  interface
    integer(c_int) function gasnet_init(argc, argv) bind(c)
      import c_int, c_ptr
      type(c_ptr), value :: argc, argv
    end function
    integer(c_int) function gasnet_attach(table, entries, bytes, offset) bind(c)
      import c_int, c_ptr, c_size_t
      type(c_ptr), value :: table
      integer(c_int), value :: entries
      integer(c_size_t), value :: bytes, offset
    end function
    integer(c_int32_t) function gex_System_QueryJobRank() bind(c, name='gex_System_QueryJobRank')
      import c_int32_t
    end function
    integer(c_int32_t) function gex_System_QueryJobSize() bind(c, name='gex_System_QueryJobSize')
      import c_int32_t
    end function
  end interface
  if (gasnet_init(c_null_ptr, c_null_ptr) /= 0) error stop 1
  if (gasnet_attach(c_null_ptr, 0_c_int, 0_c_size_t, 0_c_size_t) /= 0) error stop 2
  if (gex_System_QueryJobRank() == 0) print '(a,i0,a)', 'hello from ', gex_System_QueryJobSize(), ' ranks over smp'
end program
EOF
cmake_hello hello "$WORK/hello.f90" | cmake_project "$WORK/cmake-fortran" Fortran
if ! command -v gfortran >/dev/null; then
    skip "install: CMake without C: there is no gfortran"
elif attempt "install: CMake without C" cmake_in "$WORK/cmake-fortran" -DCMAKE_PREFIX_PATH="$STAGE_RELEASE"; then
    expect "install: CMake without C runs" "$WORK/cmake-fortran/build/hello"
fi

# Two prefixes: a folder each. A folder that has targets of one prefix must not take them for those
# of the other.
for name in one other; do
    mkdir -p "$WORK/cmake-two/$name"
    { echo "set(GASNet_DIR \"\${${name}_prefix}/lib/cmake/GASNet\")" && cmake_hello "hello_$name" "$HELLO"; } \
        >"$WORK/cmake-two/$name/CMakeLists.txt"
done
printf 'add_subdirectory(one)\nadd_subdirectory(other)\n' | cmake_project "$WORK/cmake-two" C
two() { cmake_in "$1" -Done_prefix="$STAGE_RELEASE" -Dother_prefix="$WORK/a prefix"; }
if attempt "install: CMake with two prefixes" two "$WORK/cmake-two"; then
    for name in one other; do
        expect "install: CMake with two prefixes, $name" "$WORK/cmake-two/build/$name/hello_$name"
    done
fi
mkdir "$WORK/cmake-nested"
cp -R "$WORK/cmake-two/other" "$WORK/cmake-nested"
{ cat "$WORK/cmake-two/one/CMakeLists.txt" && echo 'add_subdirectory(other)'; } | cmake_project "$WORK/cmake-nested" C
if two "$WORK/cmake-nested" >"$WORK/messages" 2>&1; then
    fail "install: CMake takes the targets of one prefix for those of another"
elif tr -s '\n ' '  ' <"$WORK/messages" | grep -q 'of this folder are those of'; then
    pass "install: CMake keeps two prefixes apart"
else
    fail "install: CMake fails for another reason: $(tail -n 5 "$WORK/messages" | tr '\n' ' ')"
fi

# A cross build finds the prefix below its root only, and links it with nothing of this system.
mkdir -p "$WORK/sysroot/opt"
ln -s "$STAGE_RELEASE" "$WORK/sysroot/opt/gasnet"
cat >"$WORK/toolchain.cmake" <<EOF
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR $(uname -m))
set(CMAKE_C_COMPILER $CC)
set(CMAKE_FIND_ROOT_PATH "$WORK/sysroot")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
EOF
cmake_hello hello "$HELLO" | cmake_project "$WORK/cross" C
if attempt "install: CMake builds for another system" cmake_in "$WORK/cross" \
    -DCMAKE_TOOLCHAIN_FILE="$WORK/toolchain.cmake" -DCMAKE_PREFIX_PATH=/opt/gasnet; then
    expect "install: CMake for another system runs" "$WORK/cross/build/hello"
fi
