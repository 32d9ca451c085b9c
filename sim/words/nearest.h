// "Did you mean": the known word that is nearest to the typed word.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::sim {

// The candidate that is at most two typing mistakes away from `word` or begins with it; empty if there is none.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

// "; did you mean 'x'?", or nothing.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace lockstep::sim
