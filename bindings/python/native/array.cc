#include "bindings/python/native/array.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "bindings/python/native/dlpack.h"
#include "bindings/python/native/error.h"

namespace lockstep::python {
namespace {

enum class Kind : std::uint8_t { kUnsigned, kSigned, kFloat, kBfloat, kBool };

std::optional<lockstep_data_type> type_of(Kind kind, std::size_t bytes) {
  switch (kind) {
    case Kind::kUnsigned:
    case Kind::kSigned: {
      const int sign = kind == Kind::kSigned ? 1 : 0;
      if (bytes == 1) return static_cast<lockstep_data_type>(LOCKSTEP_U8 + sign);
      if (bytes == 2) return static_cast<lockstep_data_type>(LOCKSTEP_U16 + sign);
      if (bytes == 4) return static_cast<lockstep_data_type>(LOCKSTEP_U32 + sign);
      if (bytes == 8) return static_cast<lockstep_data_type>(LOCKSTEP_U64 + sign);
      return std::nullopt;
    }
    case Kind::kFloat:
      if (bytes == 2) return LOCKSTEP_F16;
      if (bytes == 4) return LOCKSTEP_F32;
      if (bytes == 8) return LOCKSTEP_F64;
      return std::nullopt;
    case Kind::kBfloat: return bytes == 2 ? std::optional(LOCKSTEP_BF16) : std::nullopt;
    case Kind::kBool: return bytes == 1 ? std::optional(LOCKSTEP_BOOL) : std::nullopt;
  }
  return std::nullopt;
}

// A struct module format of one number in this machine's byte order.
std::optional<lockstep_data_type> type_of_format(const char* format, std::size_t bytes) {
  if (format == nullptr) return LOCKSTEP_U8;
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  if ((*format == '>' || *format == '!') && bytes == 1) ++format;
  if (*format == '\0' || format[1] != '\0') return std::nullopt;
  if (std::strchr("BHILQN", *format) != nullptr) return type_of(Kind::kUnsigned, bytes);
  if (std::strchr("bhilqn", *format) != nullptr) return type_of(Kind::kSigned, bytes);
  if (std::strchr("efd", *format) != nullptr) return type_of(Kind::kFloat, bytes);
  if (*format == '?') return type_of(Kind::kBool, bytes);
  return std::nullopt;
}

std::optional<lockstep_data_type> type_of_dlpack(const dlpack::Tensor& tensor) {
  if (tensor.type.lanes != 1 || tensor.type.bits % 8 != 0) return std::nullopt;
  const std::size_t bytes = tensor.type.bits / 8U;
  switch (tensor.type.code) {
    case dlpack::kInt: return type_of(Kind::kSigned, bytes);
    case dlpack::kUInt: return type_of(Kind::kUnsigned, bytes);
    case dlpack::kFloat: return type_of(Kind::kFloat, bytes);
    case dlpack::kBfloat: return type_of(Kind::kBfloat, bytes);
    case dlpack::kBool: return type_of(Kind::kBool, bytes);
    default: return std::nullopt;
  }
}

std::string text_of(const py::handle& object) { return py::cast<std::string>(py::str(object)); }

std::string class_of(const py::handle& object) {
  const std::string module = text_of(py::type::handle_of(object).attr("__module__"));
  const std::string name = text_of(py::type::handle_of(object).attr("__qualname__"));
  return module == "builtins" ? name : module + "." + name;
}

// "(3, 4)"; "(3,)".
template <typename Number>
std::string tuple_text(const Number* numbers, std::size_t count) {
  std::string out = "(";
  for (std::size_t i = 0; i < count; ++i) out += (i > 0 ? ", " : "") + std::to_string(numbers[i]);
  return out + (count == 1 ? ",)" : ")");
}

// Strides in bytes. `strides` is in units of `unit` bytes; null if the elements of `item` bytes are contiguous.
template <typename Number>
std::string strides_text(const Number* shape, const Number* strides, std::size_t count, std::size_t unit,
                         std::size_t item) {
  std::vector<std::int64_t> bytes(count);
  auto next = static_cast<std::int64_t>(item);
  for (std::size_t i = count; i-- > 0;) {
    bytes[i] = strides != nullptr ? static_cast<std::int64_t>(strides[i]) * static_cast<std::int64_t>(unit) : next;
    next *= static_cast<std::int64_t>(shape[i]);
  }
  return tuple_text(bytes.data(), count);
}

// The order of the dimensions in memory, outermost first, as "(0, 2, 3, 1)"; empty where elements overlap or gaps lie
// between them. `unit`: what a stride counts, in bytes.
template <typename Number>
std::string memory_order(const Number* shape, const Number* strides, std::size_t count, std::size_t unit,
                         std::size_t item) {
  if (strides == nullptr) return {};
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return strides[a] > strides[b]; });
  auto next = static_cast<std::int64_t>(item);
  for (std::size_t i = count; i-- > 0;) {
    const std::size_t at = order[i];
    if (shape[at] != 1 && static_cast<std::int64_t>(strides[at]) * static_cast<std::int64_t>(unit) != next) return {};
    next *= static_cast<std::int64_t>(shape[at]);
  }
  return tuple_text(order.data(), count);
}

[[noreturn]] void raise_array(const char* kind, const std::string& text) {
  const py::object type = from_package("lockstep.errors", kind);
  PyErr_SetObject(type.ptr(), type(text).ptr());
  throw py::error_already_set();
}

constexpr const char* kSupported =
    "supported: bool, 8 to 64 bit integers, float16, bfloat16, float32 and float64, in this machine's byte order. "
    "Convert it, for example with x.astype(numpy.float32)";
constexpr const char* kSupportedOfTorch =
    "supported: bool, 8 to 64 bit integers, float16, bfloat16, float32 and float64. Convert it, for example with "
    "x.to(torch.float32); to move its bytes, pass x.view(torch.uint8)";

// The array's own text for an attribute, such as "(3, 4)".
std::string attribute_text(const py::handle& object, const char* name) {
  if (!py::hasattr(object, name)) return "unknown";
  const py::object value = object.attr(name);
  return text_of(PySequence_Check(value.ptr()) != 0 ? py::tuple(py::list(value)) : value);
}

// The description of an array in errors: "array: numpy.ndarray of shape (2, 3), strides (24, 8) and dtype float64".
struct Described {
  const py::handle& object;
  const std::string& argument;
  std::string shape;
  std::string strides;

  [[noreturn]] void refuse(const std::string& why, const char* kind = "ArrayError") const {
    std::string dtype = "unknown";
    if (py::hasattr(object, "dtype")) {
      dtype = text_of(object.attr("dtype"));
    } else if (py::hasattr(object, "typecode")) {
      dtype = "typecode " + text_of(object.attr("typecode"));
    } else if (py::hasattr(object, "format")) {
      dtype = "format " + text_of(object.attr("format"));
    } else if (PyBytes_Check(object.ptr()) || PyByteArray_Check(object.ptr())) {
      dtype = "uint8";
    }
    raise_array(kind, argument + ": " + class_of(object) + " of shape " + shape + ", strides " + strides +
                          " (bytes) and dtype " + dtype + " " + why);
  }
  // `order`: memory_order().
  [[noreturn]] void refuse_layout(const std::string& order) const {
    if (!order.empty()) {
      const char* const method = py::hasattr(object, "permute") ? "permute" : "transpose";
      const std::string view = std::string("x.") + method + order;
      refuse("is not C-contiguous: its dimensions lie in memory in the order " + order +
             ". Members with other orders would mix elements: pass " + view +
             ", which is the same memory, if all members do, or a contiguous copy");
    }
    refuse("is not C-contiguous: pass numpy.ascontiguousarray(x) or x.contiguous(), and copy the result back");
  }
  [[noreturn]] void refuse_alignment() const {
    refuse("does not lie at a multiple of its elements' size: pass a copy such as x.copy()");
  }
  [[noreturn]] void refuse_read_only() const {
    refuse("is read-only, and the call writes to it: pass a writable copy such as x.copy()");
  }
  [[noreturn]] void refuse_type(const char* supported = kSupported) const {
    refuse(std::string("has elements that cannot be reduced; ") + supported);
  }
};

bool is_aligned(const void* data, lockstep_data_type type) {
  return reinterpret_cast<std::uintptr_t>(data) % lockstep_data_type_size(type) == 0;
}

std::uint64_t count_of(const dlpack::Tensor& tensor) {
  std::uint64_t count = 1;
  for (std::int32_t i = 0; i < tensor.ndim; ++i) count *= static_cast<std::uint64_t>(tensor.shape[i]);
  return count;
}

bool is_contiguous(const dlpack::Tensor& tensor) {
  if (tensor.strides == nullptr || count_of(tensor) == 0) return true;
  std::int64_t expected = 1;
  for (std::int32_t i = tensor.ndim - 1; i >= 0; --i) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != expected) return false;
    expected *= tensor.shape[i];
  }
  return true;
}

// Null if no error was found.
const char* what_is_wrong(const dlpack::Tensor& tensor) {
  constexpr std::int32_t kMostDimensions = 64;  // the limit of numpy and torch
  if (tensor.ndim < 0 || tensor.ndim > kMostDimensions) return "ndim is not 0 to 64";
  if (tensor.ndim > 0 && tensor.shape == nullptr) return "shape is NULL";
  std::uint64_t bytes =
      std::max<std::uint64_t>(1, tensor.type.bits / 8U) * std::max<std::uint64_t>(1, tensor.type.lanes);
  bool is_empty = false;
  for (std::int32_t i = 0; i < tensor.ndim; ++i) {
    if (tensor.shape[i] < 0) return "a dimension is negative";
    is_empty = is_empty || tensor.shape[i] == 0;
  }
  if (is_empty) return nullptr;
  for (std::int32_t i = 0; i < tensor.ndim; ++i) {
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(tensor.shape[i]), &bytes))
      return "it is larger than memory";
  }
  if (bytes > std::numeric_limits<std::int64_t>::max()) return "it is larger than memory";
  return tensor.data == nullptr ? "data is NULL" : nullptr;
}

// The array's capsule, without a copy; older exporters accept fewer arguments.
py::object dlpack_capsule(const py::handle& object) {
  const py::object exporter = object.attr("__dlpack__");
  const auto version = py::make_tuple(1, 0);
  for (int attempt = 0;; ++attempt) {
    try {
      if (attempt == 0) return exporter(py::arg("max_version") = version, py::arg("copy") = false);
      if (attempt == 1) return exporter(py::arg("max_version") = version);
      return exporter();
    } catch (py::error_already_set& error) {
      if (attempt == 2 || !error.matches(PyExc_TypeError)) throw;
    }
  }
}

constexpr std::array<const char*, 13> kNames = {"uint8", "int8",    "uint16",   "int16",   "uint32",  "int32", "uint64",
                                                "int64", "float16", "bfloat16", "float32", "float64", "bool"};
static_assert(kNames.size() == LOCKSTEP_BOOL + 1);

// Whether the array is a tensor of torch, of any subclass, whose dtype Lockstep lacks. torch exports some of them by
// DLPack as if they were others: int4 as int8.
bool is_foreign_to_torch(const py::handle& object) {
  static PyObject* const kDtype = PyUnicode_InternFromString("dtype");
  static PyObject* known = nullptr;  // the last dtype that was found good, with the GIL held; torch's live for ever
  const auto dtype = py::reinterpret_steal<py::object>(PyObject_GetAttr(object.ptr(), kDtype));
  if (!dtype) {
    PyErr_Clear();
    return false;
  }
  if (dtype.ptr() == known) return false;
  constexpr std::string_view kModule = "torch.";
  if (std::strcmp(Py_TYPE(dtype.ptr())->tp_name, "torch.dtype") != 0) return false;
  const std::string text = text_of(dtype);
  if (!text.starts_with(kModule)) return false;
  if (std::ranges::find(kNames, std::string_view(text).substr(kModule.size())) == kNames.end()) return true;
  known = dtype.ptr();
  return false;
}

// Whether torch negates the elements when it reads them: the memory holds others.
bool is_negated(const py::handle& object) {
  static PyObject* const kIsNeg = PyUnicode_InternFromString("is_neg");
  const auto answer = py::reinterpret_steal<py::object>(PyObject_CallMethodNoArgs(object.ptr(), kIsNeg));
  if (answer) return answer.ptr() == Py_True;
  if (PyErr_ExceptionMatches(PyExc_Exception) == 0) throw py::error_already_set();  // Ctrl-C
  PyErr_Clear();                                                                    // another library's array
  return false;
}

// Strides in bytes of an array that exports no memory, as far as the array tells them: torch tells them in elements.
std::string strides_of(const py::handle& object) {
  if (!py::hasattr(object, "stride")) return attribute_text(object, "strides");
  try {
    const auto bytes = py::cast<std::int64_t>(object.attr("element_size")());
    std::vector<std::int64_t> strides;
    for (const py::handle& each : py::tuple(object.attr("stride")()))
      strides.push_back(py::cast<std::int64_t>(each) * bytes);
    return tuple_text(strides.data(), strides.size());
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_Exception)) throw;  // Ctrl-C
    return "unknown";
  }
}

bool is_named(PyTypeObject* type, const char* module, const char* name) {
  if (std::strcmp(type->tp_name, name) != 0) return false;
  const auto of =
      py::reinterpret_steal<py::object>(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__module__"));
  PyErr_Clear();
  return of && PyUnicode_Check(of.ptr()) != 0 && PyUnicode_CompareWithASCIIString(of.ptr(), module) == 0;
}

// Whether the object is a plain tensor of torch, or a parameter: no subclass of another package.
bool is_of_torch(const py::handle& object) {
  static std::array<PyTypeObject*, 2> known{};  // with the GIL held; torch's classes live as long as the process
  PyTypeObject* const type = Py_TYPE(object.ptr());
  if (type == known[0] || type == known[1]) return true;
  const bool is_tensor = is_named(type, "torch", "Tensor");
  if (!is_tensor && !is_named(type, "torch.nn.parameter", "Parameter")) return false;
  Py_INCREF(type);
  known[is_tensor ? 0 : 1] = type;
  return true;
}

// The functions of the library that has this class; null without any of version 1.
const dlpack::Exchange* exchange_of(PyTypeObject* type) {
  const auto capsule = py::reinterpret_steal<py::object>(
      PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), dlpack::kExchangeAttribute));
  const dlpack::Exchange* exchange = nullptr;
  if (capsule && PyCapsule_IsValid(capsule.ptr(), dlpack::kExchangeCapsule) != 0) {
    exchange = static_cast<const dlpack::Exchange*>(PyCapsule_GetPointer(capsule.ptr(), dlpack::kExchangeCapsule));
  }
  PyErr_Clear();
  while (exchange != nullptr && exchange->major != 1) exchange = exchange->older;
  return exchange;
}

// What torch itself exports of a plain tensor. Null where the way of `__dlpack__` has to decide: an older torch, a
// dtype that Lockstep lacks, an error.
dlpack::ManagedTensorVersioned* exported(const py::handle& tensor) {
  static const dlpack::Exchange* exchange = nullptr;  // with the GIL held
  static bool has_looked = false;
  if (!std::exchange(has_looked, true)) exchange = exchange_of(Py_TYPE(tensor.ptr()));
  dlpack::ManagedTensorVersioned* out = nullptr;
  if (exchange == nullptr || is_foreign_to_torch(tensor) || is_negated(tensor)) return nullptr;
  if (exchange->export_managed(tensor.ptr(), &out) != 0) out = nullptr;
  if (out == nullptr && PyErr_Occurred() != nullptr) {
    if (PyErr_ExceptionMatches(PyExc_Exception) == 0) throw py::error_already_set();  // Ctrl-C
    PyErr_Clear();
  }
  return out;
}

// numpy's array in the memory of a tensor of torch, which costs less than DLPack. Null where numpy has none: memory of
// a device, a type that numpy lacks, a tensor that is negated later.
py::object array_in(const py::handle& tensor) {
  static PyObject* const kRequiresGrad = PyUnicode_InternFromString("requires_grad");
  static PyObject* const kDetach = PyUnicode_InternFromString("detach");
  static PyObject* const kNumpy = PyUnicode_InternFromString("numpy");
  auto source = py::reinterpret_borrow<py::object>(tensor);
  const auto requires_grad = py::reinterpret_steal<py::object>(PyObject_GetAttr(source.ptr(), kRequiresGrad));
  if (requires_grad && requires_grad.ptr() != Py_False)
    source = py::reinterpret_steal<py::object>(PyObject_CallMethodNoArgs(source.ptr(), kDetach));
  py::object array;
  if (source) array = py::reinterpret_steal<py::object>(PyObject_CallMethodNoArgs(source.ptr(), kNumpy));
  if (array) return array;
  if (PyErr_ExceptionMatches(PyExc_Exception) == 0) throw py::error_already_set();  // Ctrl-C
  PyErr_Clear();
  return {};
}

// Whether the array says that it lies on a device; arrays of the CPU and arrays that say nothing do not.
bool says_on_device(const py::handle& object) {
  if (!py::hasattr(object, "__dlpack__") || !py::hasattr(object, "__dlpack_device__")) return false;
  const py::object place = object.attr("__dlpack_device__")();
  return PyTuple_Check(place.ptr()) != 0 && PyTuple_Size(place.ptr()) == 2 &&
         py::cast<int>(py::int_(py::reinterpret_borrow<py::object>(PyTuple_GetItem(place.ptr(), 0)))) != dlpack::kCpu;
}

}  // namespace

const char* name_of(lockstep_data_type type) { return kNames.at(static_cast<std::size_t>(type)); }

Array::Array(const py::handle& object, const std::string& argument, Access access) {
  if (PyObject_CheckBuffer(object.ptr()) != 0) {
    take_buffer(object, object, argument, access);
    return;
  }
  if (is_of_torch(object)) {
    tensor_.reset(exported(object));
    if (tensor_) {
      take_tensor(tensor_->tensor, tensor_->flags, object, argument, access);
      return;
    }
    if (const py::object array = array_in(object)) {
      take_buffer(array, object, argument, access);
      return;
    }
  }
  if (py::hasattr(object, "__dlpack__")) {
    take_dlpack(object, argument, access);
    return;
  }
  const bool numbers = PyNumber_Check(object.ptr()) != 0;
  raise_array("ArrayError",
              argument + ": " + class_of(object) + " is no array" +
                  (numbers ? ": wrap it, for example numpy.array([x], numpy.float64)"
                           : ": pass a numpy array, a torch tensor, or another object with the buffer protocol or "
                             "DLPack"));
}

std::optional<Array> Array::of_plain_tensor(const py::handle& object) {
  if (!is_of_torch(object)) return std::nullopt;
  Array array;
  array.tensor_.reset(exported(object));
  if (!array.tensor_ || array.tensor_->flags != 0) return std::nullopt;
  const dlpack::Tensor& tensor = array.tensor_->tensor;
  const auto type = type_of_dlpack(tensor);
  if (!type || tensor.device_type != dlpack::kCpu || !is_contiguous(tensor)) return std::nullopt;
  if (what_is_wrong(tensor) != nullptr) return std::nullopt;
  array.type_ = *type;
  array.count_ = count_of(tensor);
  if (array.count_ > 0) array.data_ = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  if (!is_aligned(array.data_, array.type_)) return std::nullopt;
  return array;
}

void Array::take_buffer(const py::handle& object, const py::handle& shown, const std::string& argument, Access access) {
  auto view = std::make_unique<Py_buffer>();
  if (PyObject_GetBuffer(object.ptr(), view.get(), PyBUF_FULL_RO) != 0) {
    // numpy exports no buffer for types of other packages, such as ml_dtypes.bfloat16
    const py::error_already_set error;
    if (py::hasattr(object, "dtype") && text_of(object.attr("dtype")) == "bfloat16") {
      take_buffer(object.attr("view")("uint16"), object, argument, access);
      type_ = LOCKSTEP_BF16;
      return;
    }
    if (says_on_device(object)) {  // CuPy and JAX have the buffer protocol, for other arrays
      take_dlpack(object, argument, access);
      return;
    }
    const std::string remedy = py::hasattr(object, "dtype") ? kSupported : "pass a numpy array or a bytearray";
    Described{object, argument, attribute_text(object, "shape"), attribute_text(object, "strides")}.refuse(
        "gives no access to its memory (" + text_of(error.value()) + "): " + remedy);
  }
  buffer_.reset(view.release());
  const auto ndim = static_cast<std::size_t>(buffer_->ndim);
  const auto bytes = static_cast<std::size_t>(buffer_->itemsize);
  const auto described = [&] {
    return Described{shown, argument, tuple_text(buffer_->shape, ndim),
                     strides_text(buffer_->shape, buffer_->strides, ndim, 1, bytes)};
  };
  const auto type = type_of_format(buffer_->format, bytes);
  if (!type) described().refuse_type();
  if (PyBuffer_IsContiguous(buffer_.get(), 'C') == 0)
    described().refuse_layout(memory_order(buffer_->shape, buffer_->strides, ndim, 1, bytes));
  if (buffer_->readonly != 0 && access == Access::kWrite) described().refuse_read_only();
  // A numpy.ma.MaskedArray. The type's name is compared first, because that is cheap.
  if (std::strcmp(Py_TYPE(object.ptr())->tp_name, "numpy.ndarray") != 0 && py::hasattr(object, "mask") &&
      py::hasattr(object, "fill_value")) {
    described().refuse("has a mask, which the call would not see: pass x.filled(0), or x.data for all elements");
  }
  type_ = *type;
  count_ = static_cast<std::uint64_t>(buffer_->len) / bytes;
  data_ = count_ > 0 ? buffer_->buf : nullptr;
  if (!is_aligned(data_, type_)) described().refuse_alignment();
}

void Array::take_dlpack(const py::handle& given, const std::string& argument, Access access) {
  py::object object = py::reinterpret_borrow<py::object>(given);
  const auto told = [&] { return Described{object, argument, attribute_text(object, "shape"), strides_of(object)}; };
  if (is_foreign_to_torch(object)) told().refuse_type(kSupportedOfTorch);
  if (is_negated(object)) {
    told().refuse("is negated when torch reads it, and its memory is not: pass x.resolve_neg()");
  }
  // A torch tensor that requires a gradient cannot be exported; the detached tensor has the same memory.
  if (py::hasattr(object, "requires_grad") && PyObject_IsTrue(object.attr("requires_grad").ptr()) > 0)
    object = object.attr("detach")();
  raise_pending();
  try {
    capsule_ = dlpack_capsule(object);
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_Exception)) throw;  // Ctrl-C
    told().refuse("gives no access to its memory without a copy (" + text_of(error.value()) +
                  "): pass a contiguous array in memory of the CPU");
  }
  std::uint64_t flags = 0;
  const dlpack::Tensor* tensor = nullptr;
  if (PyCapsule_IsValid(capsule_.ptr(), "dltensor_versioned") != 0) {
    const auto* managed =
        static_cast<dlpack::ManagedTensorVersioned*>(PyCapsule_GetPointer(capsule_.ptr(), "dltensor_versioned"));
    if (managed->major != 1) {
      raise_array("ArrayError", argument + ": " + class_of(object) + " exports DLPack version " +
                                    std::to_string(managed->major) + "; supported: 1");
    }
    flags = managed->flags;
    tensor = &managed->tensor;
  } else if (PyCapsule_IsValid(capsule_.ptr(), "dltensor") != 0) {
    tensor = &static_cast<dlpack::ManagedTensor*>(PyCapsule_GetPointer(capsule_.ptr(), "dltensor"))->tensor;
  } else {
    raise_array("ArrayError", argument + ": " + class_of(object) + ".__dlpack__() returned no DLPack tensor");
  }
  take_tensor(*tensor, flags, object, argument, access);
}

void Array::take_tensor(const dlpack::Tensor& tensor, std::uint64_t flags, const py::handle& object,
                        const std::string& argument, Access access) {
  if (const char* const wrong = what_is_wrong(tensor)) {
    raise_array("ArrayError", argument + ": " + class_of(object) + ".__dlpack__() describes no tensor: " + wrong);
  }
  const auto ndim = static_cast<std::size_t>(tensor.ndim);
  const auto described = [&] {
    const std::size_t bytes = std::size_t{tensor.type.bits} / 8 * tensor.type.lanes;
    return Described{object, argument, tuple_text(tensor.shape, ndim),
                     strides_text(tensor.shape, tensor.strides, ndim, bytes, bytes)};
  };
  const auto type = type_of_dlpack(tensor);
  if (!type) described().refuse_type();
  if (access == Access::kWrite && (flags & dlpack::kReadOnly) != 0) described().refuse_read_only();
  if (tensor.device_type == dlpack::kCuda) {
    described().refuse("lies on a CUDA device: pass x.cpu(), and copy the result back", "DeviceArray");
  }
  if (tensor.device_type != dlpack::kCpu && tensor.device_type != dlpack::kCudaHost) {
    described().refuse("lies on a device of DLPack type " + std::to_string(tensor.device_type) +
                       ", which the CPU cannot read: pass x.cpu(), and copy the result back");
  }
  if (!is_contiguous(tensor)) {
    const std::size_t item = std::size_t{tensor.type.bits} / 8;
    described().refuse_layout(memory_order(tensor.shape, tensor.strides, ndim, item, item));
  }
  if (access == Access::kWrite && (flags & dlpack::kIsCopied) != 0) {
    described().refuse("exports only a copy of its memory, so the result would be lost: pass memory of the CPU");
  }
  type_ = *type;
  count_ = count_of(tensor);
  data_ = count_ > 0 ? static_cast<std::byte*>(tensor.data) + tensor.byte_offset : nullptr;
  if (!is_aligned(data_, type_)) described().refuse_alignment();
}

std::vector<Array> arrays_of(const py::object& object, const std::string& argument, Array::Access access) {
  std::vector<Array> arrays;
  if (!is_list(object)) {
    arrays.emplace_back(object, argument, access);
    return arrays;
  }
  const auto items = py::reinterpret_steal<py::list>(PySequence_List(object.ptr()));
  arrays.reserve(items.size());
  for (const auto& item : items) {
    arrays.emplace_back(item, argument + "[" + std::to_string(arrays.size()) + "]", access);
    if (arrays.back().type() != arrays.front().type()) {
      const auto told = [&](std::size_t i) {
        return argument + "[" + std::to_string(i) + "] has dtype " + name_of(arrays[i].type());
      };
      raise_array("ArrayError", told(arrays.size() - 1) + " and " + told(0) + ": arrays of one call have one dtype");
    }
  }
  return arrays;
}

}  // namespace lockstep::python
