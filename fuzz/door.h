// What every target defines: libFuzzer, or feed_files.cc in its place, calls it with one input after the other.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
