// The congestion controls of one peer's streams, and when tensors were last written to a stream of each. Used by the
// thread that runs the streams only.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace lockstep::transport {

class CongestionUse {
 public:
  // One congestion control. Valid as long as the CongestionUse.
  struct Control {
    std::uint64_t last_write = 0;  // number of the write; 0: none yet
  };

  Control& control(const std::string& name) { return controls_[name]; }
  // Tensors are written to a stream with this control.
  void wrote(Control& control) { control.last_write = ++writes_; }

  // So many writes until now.
  [[nodiscard]] std::uint64_t writes() const { return writes_; }
  // The controls of the streams that were written to after so many writes, in alphabetical order: "bbr, cubic".
  [[nodiscard]] std::string used_since(std::uint64_t writes) const {
    std::string names;
    for (const auto& [name, control] : controls_) {
      if (control.last_write > writes) names += (names.empty() ? "" : ", ") + name;
    }
    return names;
  }

 private:
  std::map<std::string, Control> controls_;
  std::uint64_t writes_ = 0;
};

}  // namespace lockstep::transport
