# One static library a module, declared from layers.txt. A module's sources are src/<module>/**.cc; *_test.cc beside
# them become <module>_test, *_bench.cc become <module>_bench, *_counts.cc become <module>_counts, each *_fuzz.cc one
# fuzz target.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(fmt REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(Boost 1.81 REQUIRED COMPONENTS json)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(HWY REQUIRED IMPORTED_TARGET libhwy)
pkg_check_modules(PROMETHEUS REQUIRED IMPORTED_TARGET prometheus-cpp-core)
pkg_check_modules(RE2 REQUIRED IMPORTED_TARGET re2)
pkg_check_modules(YAMLCPP REQUIRED IMPORTED_TARGET yaml-cpp)
pkg_check_modules(SQLITE REQUIRED IMPORTED_TARGET sqlite3)
pkg_check_modules(PQ REQUIRED IMPORTED_TARGET libpq)
find_package(ZLIB REQUIRED)
find_package(Eigen3 3.4 REQUIRED NO_MODULE)

# Third-party libraries by module.
set(SURETY_THIRD_PARTY_base fmt::fmt OpenSSL::Crypto Threads::Threads)
set(SURETY_THIRD_PARTY_observe Boost::json PkgConfig::PROMETHEUS Threads::Threads)
set(SURETY_THIRD_PARTY_api Boost::json)
set(SURETY_THIRD_PARTY_kernels PkgConfig::HWY)
set(SURETY_THIRD_PARTY_model Boost::json PkgConfig::PCRE2 PkgConfig::UTF8PROC)
set(SURETY_THIRD_PARTY_kv OpenSSL::Crypto)
set(SURETY_THIRD_PARTY_train Boost::json Eigen3::Eigen)
set(SURETY_THIRD_PARTY_engine Boost::json)
set(SURETY_THIRD_PARTY_gateway Boost::json OpenSSL::SSL PkgConfig::UTF8PROC PkgConfig::RE2 PkgConfig::YAMLCPP
    PkgConfig::SQLITE PkgConfig::PQ)
set(SURETY_THIRD_PARTY_http Boost::json OpenSSL::SSL)
set(SURETY_THIRD_PARTY_cli Boost::json ZLIB::ZLIB OpenSSL::SSL)

add_library(surety_options INTERFACE)
# Floating-point results are part of the contract (docs/adr/0001): no contraction, no fast-math, anywhere.
target_compile_options(surety_options INTERFACE -Wall -Wextra -ffp-contract=off -fno-math-errno)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # False alarms of this version: std::string's own copies, and the undefined registers of its AVX-512 headers.
  target_compile_options(surety_options INTERFACE -Wno-restrict -Wno-array-bounds -Wno-uninitialized
                         -Wno-maybe-uninitialized)
endif()
if(SURETY_WERROR)
  target_compile_options(surety_options INTERFACE -Werror)
endif()
if(SURETY_SANITIZE)
  target_compile_options(surety_options INTERFACE -fsanitize=${SURETY_SANITIZE} -fno-omit-frame-pointer
                         -fno-sanitize-recover=all)
  target_link_options(surety_options INTERFACE -fsanitize=${SURETY_SANITIZE})
  # Fully unrolled loops over vectors: instrumented, each of these takes over five minutes to compile. Check their reads
  # and writes by running the tests MatMulTypeTest.* under valgrind.
  set_source_files_properties(src/kernels/cpu/matmul_simple.cc src/kernels/cpu/matmul_super.cc
                              PROPERTIES COMPILE_OPTIONS -fno-sanitize=all)
endif()
if(SURETY_FUZZERS)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "SURETY_FUZZERS needs clang: -DCMAKE_CXX_COMPILER=clang++-19")
  endif()
  # Library code counts its edges for libFuzzer; only the fuzz targets bring its main function.
  target_compile_options(surety_options INTERFACE -fsanitize=fuzzer-no-link -g1)
  add_custom_target(fuzzers)
endif()
target_include_directories(surety_options INTERFACE ${CMAKE_SOURCE_DIR}/src)
target_compile_definitions(surety_options INTERFACE SURETY_VERSION="${PROJECT_VERSION}")
# SIMD code is compiled for several targets and chosen at run time (Highway); this is what all other code may assume.
# The definitions must be the same in every translation unit.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(surety_options INTERFACE -march=x86-64-v2)
endif()
target_compile_definitions(surety_options INTERFACE HWY_WANT_AVX3_DL=1 HWY_DISABLE_PCLMUL_AES=1)

# Training's arithmetic is compiled once for each instruction set (src/train/math_table.h). Optimised in every build:
# plain Eigen is a hundred times slower.
set(SURETY_MATH_SETS src/train/math_base.cc src/train/math_avx2.cc src/train/math_avx512.cc)
set_source_files_properties(${SURETY_MATH_SETS} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON COMPILE_OPTIONS -O3)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set_source_files_properties(src/train/math_avx2.cc PROPERTIES COMPILE_OPTIONS "-O3;-march=x86-64-v3")
  set_source_files_properties(src/train/math_avx512.cc PROPERTIES COMPILE_OPTIONS "-O3;-march=x86-64-v4")
endif()

# Fitting a classifier is one loop over a matrix. A header that was precompiled with -O1 would bring its -O1 along.
set_source_files_properties(src/gateway/logistic_regression.cc
                            PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS -O3)

# Loops over the characters of whole texts, several times in each governed request.
set_source_files_properties(src/gateway/text_folding.cc src/gateway/text_numbers.cc src/gateway/personal_data.cc
                            src/gateway/phrase_matcher.cc src/gateway/audit_row.cc
                            PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS -O2)

# Reading the headers of the standard library and of Boost.JSON takes as long as the rest of most files: modules that
# use both read them once. A file still includes what it uses.
set(SURETY_PRECOMPILED_MODULES model engine gateway http cli)
function(surety_precompile target module)
  if(NOT module IN_LIST SURETY_PRECOMPILED_MODULES)
    return()
  endif()
  target_precompile_headers(${target} PRIVATE <algorithm> <array> <atomic> <functional> <map> <memory> <mutex>
                            <optional> <span> <string> <string_view> <unordered_map> <utility> <vector>
                            <boost/json.hpp> ${ARGN})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -fpch-preprocess)
  endif()
endfunction()

# Most of what compiling a file costs are the templates that it shares with its neighbours, so several are compiled as
# one: a third of the time for these modules, half for a whole build. Names local to a file must therefore be unique in
# their module. Kernels are compiled several times each, once for each instruction set, and stay apart.
function(surety_unity target module)
  if(SURETY_UNITY AND NOT module STREQUAL "kernels")
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      # It takes an included source for a header, in which a type of a nameless namespace would be a mistake.
      target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
    endif()
  endif()
endfunction()

function(surety_module level name may_include)
  file(GLOB_RECURSE all CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cc)
  set(sources ${all})
  list(FILTER sources EXCLUDE REGEX "_(test|bench|counts|fuzz)\\.cc$|/main\\.cc$|/src/${name}/reference/|/testing/")
  if(NOT sources)
    return()  # a module of the table that holds no code yet
  endif()
  add_library(surety_${name} STATIC ${sources})
  set(links)
  foreach(dep IN LISTS may_include)
    if(TARGET surety_${dep})
      list(APPEND links surety_${dep})
    endif()
  endforeach()
  target_link_libraries(surety_${name} PUBLIC surety_options ${links} ${SURETY_THIRD_PARTY_${name}})
  # Where no time is spent in loops a cheap optimisation does, and compiles in two thirds of the time.
  if(name MATCHES "^(observe|http|cli)$")
    target_compile_options(surety_${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  elseif(name MATCHES "^(model|engine|gateway)$")
    target_compile_options(surety_${name} PRIVATE $<$<CONFIG:Release>:-O2>)
  endif()
  surety_precompile(surety_${name} ${name})
  surety_unity(surety_${name} ${name})

  # Plain reference implementations, for tests only.
  set(references ${all})
  list(FILTER references INCLUDE REGEX "/src/${name}/reference/|/testing/")
  list(FILTER references EXCLUDE REGEX "_(test|bench|counts|fuzz)\\.cc$")
  if(references AND (SURETY_TESTS OR SURETY_BENCHMARKS OR SURETY_FUZZERS))
    add_library(surety_${name}_reference STATIC ${references})
    target_link_libraries(surety_${name}_reference PUBLIC surety_${name})
    surety_unity(surety_${name}_reference ${name})
  endif()

  set(mains ${all})
  list(FILTER mains INCLUDE REGEX "/main\\.cc$")
  if(mains)
    add_executable(surety ${mains})
    target_link_libraries(surety PRIVATE surety_${name})
  endif()

  set(tests ${all})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  if(tests AND SURETY_TESTS)
    find_package(GTest REQUIRED)
    add_executable(${name}_test ${tests})
    target_compile_definitions(${name}_test PRIVATE SURETY_TESTDATA="${CMAKE_SOURCE_DIR}/testdata"
                               SURETY_SHARED_DATA="${CMAKE_SOURCE_DIR}/../shared/data")
    target_link_libraries(${name}_test PRIVATE surety_${name} GTest::gtest GTest::gmock GTest::gtest_main)
    foreach(dep IN LISTS may_include ITEMS ${name})
      if(TARGET surety_${dep}_reference)
        target_link_libraries(${name}_test PRIVATE surety_${dep}_reference)
      endif()
    endforeach()
    target_compile_options(${name}_test PRIVATE $<$<CONFIG:Release>:-O1>)
    surety_precompile(${name}_test ${name} <gtest/gtest.h>)
    surety_unity(${name}_test tests)
    include(GoogleTest)
    gtest_discover_tests(${name}_test DISCOVERY_MODE PRE_TEST PROPERTIES LABELS unit TIMEOUT 300)
  endif()

  set(benches ${all})
  list(FILTER benches INCLUDE REGEX "_bench\\.cc$")
  if(benches AND SURETY_BENCHMARKS)
    find_package(benchmark REQUIRED)
    add_executable(${name}_bench ${benches})
    target_link_libraries(${name}_bench PRIVATE surety_${name} benchmark::benchmark benchmark::benchmark_main)
    if(TARGET surety_${name}_reference)
      target_link_libraries(${name}_bench PRIVATE surety_${name}_reference)
    endif()
  endif()

  # Instructions that calls take (tools/kernel_counts.py): those of the code that is shipped, so of release builds only.
  set(counts ${all})
  list(FILTER counts INCLUDE REGEX "_counts\\.cc$")
  if(counts AND SURETY_TESTS AND CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT SURETY_SANITIZE)
    add_executable(${name}_counts ${counts})
    target_link_libraries(${name}_counts PRIVATE surety_${name})
    target_compile_options(${name}_counts PRIVATE -O1)
  endif()

  set(fuzzers ${all})
  list(FILTER fuzzers INCLUDE REGEX "_fuzz\\.cc$")
  foreach(fuzzer IN LISTS fuzzers)
    get_filename_component(fuzz_name ${fuzzer} NAME_WE)
    if(SURETY_FUZZERS)
      add_executable(${fuzz_name} ${fuzzer})
      target_link_libraries(${fuzz_name} PRIVATE surety_${name})
      target_link_options(${fuzz_name} PRIVATE -fsanitize=fuzzer)
      add_dependencies(fuzzers ${fuzz_name})
      # A short run that starts from the committed inputs. New inputs go to the first folder, in the build tree.
      set(corpus ${CMAKE_SOURCE_DIR}/testdata/fuzz/${fuzz_name})
      if(EXISTS ${corpus})
        file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz/${fuzz_name})
        add_test(NAME ${fuzz_name} COMMAND ${fuzz_name} -runs=20000 -max_total_time=60 -rss_limit_mb=2048
                 -malloc_limit_mb=1024 ${CMAKE_BINARY_DIR}/fuzz/${fuzz_name} ${corpus})
        set_tests_properties(${fuzz_name} PROPERTIES LABELS fuzz-smoke TIMEOUT 300)
      endif()
    endif()
  endforeach()
endfunction()

function(surety_modules)
  set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/layers.txt)
  file(STRINGS ${CMAKE_SOURCE_DIR}/layers.txt rows REGEX "^[0-9]")
  foreach(row IN LISTS rows)
    string(REGEX REPLACE " +" ";" fields "${row}")
    list(POP_FRONT fields level name)
    surety_module(${level} ${name} "${fields}")
  endforeach()
endfunction()
