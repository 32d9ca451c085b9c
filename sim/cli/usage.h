// A command line that is wrong, in words that help. For every program of ours that parses one with CLI11.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace lockstep::sim {

// An option's value must be one of these.
CLI::Validator one_of(std::vector<std::string> choices);

// What CLI11 found wrong with this command or subcommand, with the nearest known option where a guess can help.
std::string wrong_usage(const CLI::ParseError& error, const CLI::App& command);

}  // namespace lockstep::sim
