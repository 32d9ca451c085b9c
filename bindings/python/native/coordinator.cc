#include "bindings/python/native/coordinator.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "bindings/python/native/error.h"
#include "bindings/python/native/gil.h"
#include "bindings/python/native/lines.h"
#include "bindings/python/native/options.h"
#include "lockstep.h"

namespace lockstep::python {
namespace {

class Coordinator {
 public:
  explicit Coordinator(const py::dict& given) {
    const Options from(given);
    const std::string listen = from.text("listen");
    const std::string flight_file = from.path("flight_file");
    lockstep_coordinator_options options = LOCKSTEP_COORDINATOR_OPTIONS_INIT;
    options.listen = or_null(listen);
    options.heartbeat_ms = from.duration("heartbeat", 1e-3);
    options.silence_ms = from.duration("silence", 1e-3);
    options.greeting_ms = from.duration("greeting", 1e-3);
    options.flight_file = or_null(flight_file);
    options.shared_thread = from.flag("shared_thread");
    const std::string token_file = from.path("token_file");
    const std::string advertise = from.text("advertise");
    options.token_file = or_null(token_file);
    options.advertise = or_null(advertise);
    options.insecure = from.flag("insecure");
    options.no_dial_back = from.flag("no_dial_back");
    const Certificates certificates(from);
    options.certificates = certificates.get();
    log_ = lines_to(from.get("log"));
    if (log_) {
      options.log = &Lines::take;
      options.log_user = log_.get();
    }
    lockstep_status status = LOCKSTEP_OK;
    {
      const WithoutGil released;
      status = lockstep_coordinator_start(&options, &coordinator_);
    }
    check(status);
    std::array<char, 64> address{};
    check(lockstep_coordinator_address(coordinator_, address.data(), address.size()));
    address_ = address.data();
    std::array<char, LOCKSTEP_TOKEN_BYTES> token{};
    check(lockstep_coordinator_token(coordinator_, token.data(), token.size()));
    token_ = token.data();
  }
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;
  ~Coordinator() { stop(); }

  // Joins a thread that ends at once; so does the destructor.
  void stop() {
    const WithoutGil released;
    lockstep_coordinator_stop(std::exchange(coordinator_, nullptr));
    log_.reset();
  }
  void flight_record(const py::object& path) {
    const std::string file = to_path(path, "path");
    if (coordinator_ == nullptr) raise(LOCKSTEP_ERR_NOT_CONNECTED, "the coordinator was stopped", py::none());
    lockstep_status status = LOCKSTEP_OK;
    {
      const WithoutGil released;
      status = lockstep_coordinator_flight_record(coordinator_, file.c_str());
    }
    raise_pending();
    check(status);
  }
  [[nodiscard]] const std::string& address() const { return address_; }
  [[nodiscard]] const std::string& token() const { return token_; }

 private:
  std::unique_ptr<Lines> log_;
  lockstep_coordinator* coordinator_ = nullptr;
  std::string address_;
  std::string token_;
};

// Without the secret of a run token.
py::str addresses_of(const std::string& coordinator) {
  std::string addresses(std::max<std::size_t>(coordinator.size() + 1, LOCKSTEP_TOKEN_BYTES), '\0');
  check(lockstep_parse_coordinator(coordinator.c_str(), addresses.data(), addresses.size()));
  return to_text(addresses.c_str());
}

}  // namespace

void define_coordinator(py::module_& module) {
  module.def("addresses_of", &addresses_of);
  py::class_<Coordinator>(module, "Coordinator")
      .def(py::init<const py::dict&>())
      .def("stop", &Coordinator::stop)
      .def("flight_record", &Coordinator::flight_record)
      .def("address", &Coordinator::address)
      .def("token", &Coordinator::token);
}

}  // namespace lockstep::python
