// Builds one visitor out of lambdas, for std::visit.
#pragma once

namespace lockstep {

template <typename... Fs>
struct overloaded : Fs... {
  using Fs::operator()...;
};
template <typename... Fs>
overloaded(Fs...) -> overloaded<Fs...>;

}  // namespace lockstep
