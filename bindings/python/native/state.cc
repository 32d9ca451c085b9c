#include "bindings/python/native/state.h"

#include <bit>
#include <tuple>

#include "bindings/python/native/call.h"
#include "bindings/python/native/error.h"
#include "bindings/python/native/options.h"

namespace lockstep::python {
namespace {

std::uint64_t slot_of(const std::string& name, lockstep_value_type type, const py::handle& value) {
  std::uint64_t bits = 0;
  if (type == LOCKSTEP_REAL) {
    bits = std::bit_cast<std::uint64_t>(PyFloat_AsDouble(value.ptr()));
  } else if (type == LOCKSTEP_UINT) {
    bits = PyLong_AsUnsignedLongLong(value.ptr());
  } else {
    bits = static_cast<std::uint64_t>(PyLong_AsLongLong(value.ptr()));
  }
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    raise_invalid("state value '" + name + "' is " + shown(value) + "; allowed: integers of 64 bits and floats");
  }
  return bits;
}

}  // namespace

py::list StateArgs::current_values() const {
  py::list out;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i].type == LOCKSTEP_REAL) {
      out.append(std::bit_cast<double>(slots[i]));
    } else if (values[i].type == LOCKSTEP_UINT) {
      out.append(slots[i]);
    } else {
      out.append(static_cast<std::int64_t>(slots[i]));
    }
  }
  return out;
}

std::shared_ptr<StateArgs> state_args(const py::dict& description, const py::dict& options, Array::Access access) {
  auto state = std::make_shared<StateArgs>();
  const Options from(options);
  state->args.strategy = static_cast<lockstep_state_strategy>(from.number<unsigned>("strategy"));
  // a send-only state is never written to
  if (state->args.strategy == LOCKSTEP_STATE_SEND_ONLY) access = Array::Access::kRead;
  const py::list tensors = description["tensors"];
  const py::list values = description["values"];
  state->names.reserve(tensors.size() + values.size());  // the addresses of the names must not change
  state->arrays.reserve(tensors.size());
  for (const auto& entry : tensors) {
    const auto tensor = py::cast<py::tuple>(entry);
    const std::string& name = state->names.emplace_back(to_utf8(tensor[0], "a name in the state"));
    const bool may_differ = py::cast<bool>(tensor[2]);
    const Array& array = state->arrays.emplace_back(py::object(tensor[1]), "state['" + name + "']",
                                                    may_differ ? Array::Access::kRead : access);
    lockstep_state_tensor given{};
    given.name = name.c_str();
    given.data = array.data();
    given.count = array.count();
    given.type = array.type();
    given.may_differ = may_differ ? 1 : 0;
    given.unchanged = py::cast<bool>(tensor[3]) ? 1 : 0;
    state->tensors.push_back(given);
  }
  for (const auto& entry : values) {
    const auto value = py::cast<py::tuple>(entry);
    const std::string& name = state->names.emplace_back(to_utf8(value[0], "a name in the state"));
    const auto type = static_cast<lockstep_value_type>(py::cast<int>(value[1]));
    state->slots.push_back(slot_of(name, type, py::object(value[2])));
    state->values.push_back({name.c_str(), nullptr, type});
  }
  for (std::size_t i = 0; i < state->values.size(); ++i) state->values[i].value = &state->slots[i];

  lockstep_sync_state_args& args = state->args;
  args.tensors = state->tensors.data();
  args.tensors_count = state->tensors.size();
  args.values = state->values.data();
  args.values_count = state->values.size();
  args.revision = from.number<std::uint64_t>("revision");
  args.lineage = from.number<std::uint64_t>("lineage");
  args.staged = from.flag("staged");
  args.tag = from.number<std::uint64_t>("tag");
  args.timeout_ms = from.timeout("timeout");
  args.minimum_world = from.number<std::uint32_t>("minimum_world");
  args.blank = from.flag("blank");
  args.stable = from.flag("stable");
  args.restored = from.flag("restored");
  return state;
}

}  // namespace lockstep::python
