#include "sim/explain/names.h"

#include <algorithm>

#include "sim/workload/text.h"

namespace lockstep::sim {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

// A word, or words with dots inside that digits follow: "h2.17".
std::size_t end_of_word(std::string_view text, std::size_t at) {
  while (at < text.size() && (is_word(text[at]) || (text[at] == '.' && at + 1 < text.size() && is_digit(text[at + 1]))))
    ++at;
  return at;
}

// As core/wire/describe.h writes them: all digits, none of the zeros in front.
std::string digits_of(PeerId peer) {
  const std::string digits = hex(peer.high) + hex(peer.low);
  return digits.substr(std::min(digits.find_first_not_of('0'), digits.size() - 1));
}

}  // namespace

std::string Names::started(std::uint32_t process, std::uint32_t host, PeerId peer) {
  if (host == 0) return "coordinator";
  const std::uint32_t life = ++lives_[host];
  std::string name = "h" + std::to_string(host) + (life > 1 ? "." + std::to_string(life) : "");
  names_[digits_of(peer)] = name;
  names_[text_of(peer)] = name;
  names_["h" + std::to_string(host) + "." + std::to_string(process)] = name;
  return name;
}

std::string Names::name_of(PeerId peer) const {
  const auto it = names_.find(text_of(peer));
  return it == names_.end() ? text_of(peer) : it->second;
}

std::string Names::plain(std::string_view text) const {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::max(end_of_word(text, at), at + 1);
    const std::string_view word = text.substr(at, end - at);
    const auto known = names_.find(word);
    out += known == names_.end() ? word : std::string_view(known->second);
    at = end;
  }
  return out;
}

}  // namespace lockstep::sim
