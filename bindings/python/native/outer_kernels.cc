#include "bindings/python/native/outer_kernels.h"

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "bindings/python/native/array.h"
#include "bindings/python/native/error.h"
#include "bindings/python/native/gil.h"
#include "core/kernels/training/outer_step.h"

namespace lockstep::python {
namespace outer {
namespace {

[[noreturn]] void refuse_dtype(const std::string& name, const Array& array, const char* allowed) {
  raise_invalid(name + " is of " + name_of(array.type()) + "; allowed: " + allowed);
}

// An array of float32.
struct Floats {
  Array array;

  Floats(const py::handle& object, const char* name, Array::Access access) : array(object, name, access) {
    if (array.type() != LOCKSTEP_F32) refuse_dtype(name, array, "float32");
  }
  [[nodiscard]] std::span<float> span() const { return {static_cast<float*>(array.data()), array.count()}; }
};

void same_size(const Array& array, const char* name, const Array& first, const char* first_name) {
  if (array.count() == first.count()) return;
  raise_invalid(std::string(name) + " has " + std::to_string(array.count()) + " elements, " + first_name + " has " +
                std::to_string(first.count()) + "; allowed: as many");
}

// Part of a model's parameters; None: none.
struct Model {
  std::optional<Array> array;

  Model(const py::handle& object, const char* name, Array::Access access, const Array& first, const char* first_name) {
    if (object.is_none()) return;
    array.emplace(object, name, access);
    if (array->type() != LOCKSTEP_F32 && array->type() != LOCKSTEP_BF16 && array->type() != LOCKSTEP_F16) {
      refuse_dtype(name, *array, "float32, bfloat16, float16");
    }
    same_size(*array, name, first, first_name);
  }
  [[nodiscard]] training::Held<std::byte> held() const {
    if (!array) return {};
    const auto type = array->type() == LOCKSTEP_BF16  ? DataType::kBF16
                      : array->type() == LOCKSTEP_F16 ? DataType::kF16
                                                      : DataType::kF32;
    return {type, {static_cast<std::byte*>(array->data()), array->count() * size_of(type)}};
  }
  [[nodiscard]] training::Held<const std::byte> held_const() const { return {held().type, held().bytes}; }
};

constexpr auto kRead = Array::Access::kRead;
constexpr auto kWrite = Array::Access::kWrite;

void difference(const py::object& into, const py::object& old, const py::object& now) {
  const Floats result(into, "into", kWrite);
  const Floats before(old, "old", kRead);
  same_size(before.array, "old", result.array, "into");
  const Model model(now, "now", kRead, result.array, "into");
  if (!model.array) raise_invalid("now is None; allowed: an array");
  const WithoutGil released;
  training::difference(result.span(), before.span(), model.held_const());
}

void sgd_step(const py::object& theta, const py::object& gradient, float lr, const py::object& model) {
  const Floats shared(theta, "theta", kWrite);
  const Floats average(gradient, "gradient", kRead);
  same_size(average.array, "gradient", shared.array, "theta");
  const Model own(model, "model", kWrite, shared.array, "theta");
  const WithoutGil released;
  training::sgd_step(shared.span(), average.span(), lr, own.held());
}

void nesterov_step(const py::object& theta, const py::object& momentum, const py::object& gradient, float lr, float mu,
                   const py::object& model) {
  const Floats shared(theta, "theta", kWrite);
  const Floats speed(momentum, "momentum", kWrite);
  same_size(speed.array, "momentum", shared.array, "theta");
  const Floats average(gradient, "gradient", kRead);
  same_size(average.array, "gradient", shared.array, "theta");
  const Model own(model, "model", kWrite, shared.array, "theta");
  const WithoutGil released;
  training::nesterov_step(shared.span(), speed.span(), average.span(), lr, mu, own.held());
}

void hold(const py::object& model, const py::object& values) {
  const Floats from(values, "values", kRead);
  const Model own(model, "model", kWrite, from.array, "values");
  const WithoutGil released;
  if (own.array) training::hold(own.held(), from.span());
}

}  // namespace
}  // namespace outer

void define_outer_kernels(py::module_& module) {
  module.def(
      "difference", &outer::difference, py::arg("into"), py::arg("old"), py::arg("now"),
      "into = old - now, as float32, where old is rounded to the type of now first: float32, bfloat16 or float16.");
  module.def("sgd_step", &outer::sgd_step, py::arg("theta"), py::arg("gradient"), py::arg("lr"), py::arg("model"),
             "theta = theta - lr * gradient; then model, unless it is None, becomes theta, in its own type.");
  module.def("nesterov_step", &outer::nesterov_step, py::arg("theta"), py::arg("momentum"), py::arg("gradient"),
             py::arg("lr"), py::arg("mu"), py::arg("model"),
             "momentum = mu * momentum + gradient; theta = theta - lr * (gradient + mu * momentum); model as in "
             "sgd_step().");
  module.def("hold", &outer::hold, py::arg("model"), py::arg("values"),
             "model = values, rounded to the type of the model.");
}

}  // namespace lockstep::python
