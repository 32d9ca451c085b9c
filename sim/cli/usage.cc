#include "sim/cli/usage.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <utility>

#include "sim/words/nearest.h"

namespace lockstep::sim {
namespace {

std::string joined(const std::vector<std::string>& words, const char* between) {
  std::string out;
  for (const std::string& word : words) out.append(out.empty() ? "" : between).append(word);
  return out;
}

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

class Help final : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    std::string text = CLI::Formatter::make_help(app, std::move(name), mode);
    for (std::size_t at = 0; (at = text.find("\n\n\n", at)) != std::string::npos;) text.erase(at, 1);
    return text;
  }
};

}  // namespace

std::shared_ptr<CLI::FormatterBase> help_formatter() { return std::make_shared<Help>(); }

CLI::Validator real_number(double least, double most) {
  return CLI::Validator(
      [least, most](const std::string& word) -> std::string {
        double value = 0;
        const bool good = CLI::detail::lexical_cast(word, value) && value >= least && value <= most;
        return good ? std::string() : fmt::format("'{}' is no number from {} to {}", word, least, most);
      },
      fmt::format("from {} to {}", least, most));
}

CLI::Validator whole_number() {
  return CLI::Validator(
      [](const std::string& word) -> std::string {
        std::uint64_t number = 0;
        const char* const end = word.data() + word.size();
        const auto [at, error] = std::from_chars(word.data(), end, number);
        if (error == std::errc::result_out_of_range) return "'" + word + "' is more than 2^64 - 1";
        return error == std::errc() && at == end ? std::string() : "'" + word + "' is no number such as 0, 1, 2";
      },
      "");
}

CLI::Validator file_name() {
  return CLI::Validator(
      [](const std::string& word) -> std::string { return word.empty() ? "an empty name names no file" : ""; }, "");
}

CLI::Validator one_of(std::vector<std::string> choices) {
  const std::string description = joined(choices, "|");
  return CLI::Validator(
      [choices = std::move(choices)](const std::string& word) -> std::string {
        if (std::find(choices.begin(), choices.end(), word) != choices.end()) return {};
        return "unknown value '" + word + "'" + did_you_mean(word, choices) + " (one of: " + joined(choices, " ") + ")";
      },
      description);
}

std::string wrong_usage(const CLI::ParseError& error, const CLI::App& command) {
  if (dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr || command.remaining().empty()) return error.what();
  const std::string word = command.remaining().front();
  const std::string kind = word.starts_with("-") ? "option" : "argument";
  return "unknown " + kind + " '" + word + "' of `" + command.get_name() + "`" +
         did_you_mean(word.substr(0, word.find('=')), option_names(command));
}

}  // namespace lockstep::sim
