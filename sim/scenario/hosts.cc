#include "sim/scenario/hosts.h"

#include "sim/words/nearest.h"
#include "sim/words/words.h"

namespace lockstep::sim {
namespace {

std::optional<Who> one_host(std::string_view word) {
  const auto host = [](std::uint64_t number) { return Who{Who::Kind::kHost, static_cast<std::uint32_t>(number)}; };
  if (word == "coordinator") return host(0);
  if (word == "any") return Who{Who::Kind::kAny, 0};
  if (word.size() == 1 && word[0] >= 'a' && word[0] <= 'z') return host(static_cast<std::uint64_t>(word[0] - 'a') + 1);
  if (word.size() == 1 && word[0] >= 'X' && word[0] <= 'Z') {
    return Who{Who::Kind::kVariable, static_cast<std::uint32_t>(word[0] - 'X')};
  }
  if (!word.starts_with('h')) return {};
  const auto number = number_of(word.substr(1));
  if (!number || *number < 1 || *number > kMaxPeers) return {};
  return host(*number);
}

std::string by_number() { return "h1 to h" + std::to_string(kMaxPeers); }

}  // namespace

std::string letter_of(std::uint32_t host) {
  if (host == 0) return "coordinator";
  return host <= 26 ? std::string(1, static_cast<char>('a' + (host - 1))) : "h" + std::to_string(host);
}

std::string HostNames::add_region(const std::string& name, std::string_view hosts) {
  if (one_host(name)) return "'" + name + "' is a host; name the region otherwise";
  std::vector<Who> members;
  for (const std::string& word : split_words(hosts)) {
    const auto host = one_host(word);
    if (!host || host->kind != Who::Kind::kHost)
      return "'" + word + "' is no host: a to z, " + by_number() + " or coordinator";
    members.push_back(*host);
  }
  if (members.empty()) return "the region '" + name + "' has no hosts";
  regions_[name] = std::move(members);
  return {};
}

std::optional<std::vector<Who>> HostNames::find(const std::string& word) const {
  if (const auto region = regions_.find(word); region != regions_.end()) return region->second;
  if (const auto host = one_host(word)) return std::vector<Who>{*host};
  return {};
}

std::string HostNames::nobody(const std::string& word) const {
  std::vector<std::string> names = {"coordinator", "any"};
  for (const auto& [name, hosts] : regions_) names.push_back(name);
  const std::string guess = did_you_mean(word, names);
  return "'" + word + "' is no host" + (guess.empty() ? "." : guess) + " Hosts are a to z or " + by_number() +
         ", coordinator, any, X, Y or Z for a host that the seed binds, or one of your "
         "regions";
}

}  // namespace lockstep::sim
