// Sizes in human notation: "4096", "64K", "1M", "2G" (powers of 1024).
#pragma once

#include <cstdint>
#include <string>

#include <CLI/CLI.hpp>

namespace lockstep::cli {

// Converts "64K" to "65536" before CLI11 reads the number. The error explains the notation.
CLI::Validator size_text();

// "64 KiB", "1.5 MiB", "12 B".
std::string size_words(std::uint64_t bytes);

}  // namespace lockstep::cli
