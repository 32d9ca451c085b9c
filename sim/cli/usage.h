// A command line that is wrong, in words that help. For every program of ours that parses one with CLI11.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace lockstep::sim {

// An option's value must be one of these.
CLI::Validator one_of(std::vector<std::string> choices);

// 0, 1, 2, ...: CLI11 by itself takes -1 for the largest number that there is.
CLI::Validator whole_number();

// Checks that a text is a number in a range. The range check of CLI11 accepts "nan".
CLI::Validator real_number(double least, double most);

// The name of a file or folder: an empty one would be as good as none.
CLI::Validator file_name();

// The most for an option in seconds: 30 years.
inline constexpr double kMostSeconds = 1e9;

// The mistake that CLI11 found in this command or subcommand, with the nearest known option where a guess can help.
std::string wrong_usage(const CLI::ParseError& error, const CLI::App& command);

// Lays out --help without the blank lines that CLI11 heaps up.
std::shared_ptr<CLI::FormatterBase> help_formatter();

}  // namespace lockstep::sim
