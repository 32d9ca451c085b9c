// Sizes as people type them: "4096", "64K", "1M", "2G" (powers of 1024).
#pragma once

#include <cstdint>
#include <string>

#include <CLI/CLI.hpp>

namespace lockstep::cli {

// Turns "64K" into "65536" before CLI11 reads the number; says what a size looks like otherwise.
CLI::Validator size_text();

// "64 KiB", "1.5 MiB", "12 B".
std::string size_words(std::uint64_t bytes);

}  // namespace lockstep::cli
