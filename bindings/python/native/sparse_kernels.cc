#include "bindings/python/native/sparse_kernels.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "bindings/python/native/gil.h"
#include "bindings/python/native/kernel_arrays.h"
#include "core/kernels/training/sketch.h"
#include "core/kernels/training/sparse_step.h"
#include "core/kernels/training/standard_floats.h"
#include "core/kernels/training/top_k.h"

namespace lockstep::python {
namespace sparse {
namespace {

using kernels::Floats;
using kernels::kRead;
using kernels::kWrite;
using kernels::Model;
using kernels::refuse_dtype;
using kernels::same_size;
using training::SparseLayout;
using LayoutPtr = std::shared_ptr<const SparseLayout>;

// Raises InvalidArgument.
void require(bool condition, const char* text) {
  if (!condition) raise_invalid(text);
}

std::span<std::uint8_t> bytes_of(const Array& array, const char* name) {
  if (array.type() != LOCKSTEP_U8) refuse_dtype(name, array, "uint8");
  return {static_cast<std::uint8_t*>(array.data()), array.count()};
}

// ---- layouts ----

using Runs = std::vector<std::vector<std::tuple<std::uint64_t, std::uint32_t, std::uint32_t>>>;

std::shared_ptr<SparseLayout> make_layout(const Runs& tensors) {
  std::vector<std::vector<training::SparseRun>> runs;
  for (const auto& tensor : tensors) {
    auto& out = runs.emplace_back();
    for (const auto& [chunks, length, most] : tensor) {
      require(length >= 1 && length <= training::kLongestChunk, "a chunk has 1 to 4096 elements");
      require(most >= 1 && most <= length, "most is 1 to the length of a chunk");
      require(chunks <= std::uint64_t{1} << 40U, "a run has at most 2**40 chunks");
      out.push_back({.chunks = chunks, .length = length, .most = most});
    }
  }
  return std::make_shared<SparseLayout>(std::move(runs));
}

// The range of whole chunks of a tensor that begins at an element, of `count` elements.
training::ChunkRange range_of(const SparseLayout& layout, std::size_t tensor, std::uint64_t begin,
                              std::uint64_t count) {
  require(tensor < layout.tensors(), "there is no such tensor");
  require(begin <= layout.elements(tensor) && count <= layout.elements(tensor) - begin, "elements beyond the tensor");
  const auto first = layout.chunk_at(tensor, begin);
  require(first && layout.chunk_at(tensor, begin + count), "not whole chunks");
  return {.tensor = tensor, .first = *first};
}

// ---- tiles ----

struct TileDct {
  explicit TileDct(std::size_t height, std::size_t width)
      : dct((check(height, width), training::TileDct(height, width))) {}
  static void check(std::size_t height, std::size_t width) {
    require(height >= 1 && height <= training::kLongestSide && width >= 1 && width <= training::kLongestSide,
            "a tile has 1 to 64 rows and columns");
  }
  training::TileDct dct;
};

// Tiles in matrices: how many below each other and side by side, and the elements from row to row of the shared matrix.
using Grid = std::tuple<std::size_t, std::size_t, std::size_t>;

training::Tiles tiles_of(const TileDct& dct, const Grid& grid) {
  const auto& [down, across, stride] = grid;
  require(down >= 1 && across >= 1 && across <= stride / dct.dct.width(), "the tiles are wider than the matrix");
  return {.dct = &dct.dct, .down = down, .across = across, .stride = stride};
}

// The tiles' elements from the first one on lie in the array.
void fits(const training::Tiles& tiles, std::size_t stride, const Array& array, const char* name) {
  const std::size_t width = tiles.across * tiles.dct->width();
  const std::size_t rows = tiles.down * tiles.dct->height();
  if (width <= stride && (rows - 1) * stride + width <= array.count()) return;
  raise_invalid(std::string(name) + " has " + std::to_string(array.count()) + " elements, and the tiles end behind it");
}

// Gradients or parameters of tiles, in the type of the model.
struct TileMemory {
  std::optional<Array> array;
  DataType type = DataType::kF32;

  TileMemory(const py::object& object, const char* name, Array::Access access, const training::Tiles& tiles,
             std::size_t stride) {
    if (object.is_none()) return;
    array.emplace(object, name, access);
    fits(tiles, stride, *array, name);
    const Model model(object, name, access, *array, name);
    type = model.held().type;
  }
  [[nodiscard]] std::byte* memory() const { return array ? static_cast<std::byte*>(array->data()) : nullptr; }
};

void forward(const TileDct& self, const py::object& values, const py::object& coefficients, const Grid& grid) {
  const Floats from(values, "values", kRead);
  const Floats into(coefficients, "coefficients", kWrite);
  const training::Tiles tiles = tiles_of(self, grid);
  fits(tiles, tiles.stride, from.array, "values");
  const std::size_t of_row = tiles.across * self.dct.size();
  require(into.array.count() == tiles.down * of_row, "coefficients have another size than the tiles");
  const WithoutGil released;
  const training::StandardFloats standard_floats;
  for (std::size_t down = 0; down < tiles.down; ++down) {
    const float* const row = from.span().data() + down * self.dct.height() * tiles.stride;
    self.dct.forward(row, tiles.stride, tiles.across, into.span().data() + down * of_row);
  }
}

void backward(const TileDct& self, const py::object& coefficients, const py::object& values, const Grid& grid) {
  const Floats from(coefficients, "coefficients", kRead);
  const Floats into(values, "values", kWrite);
  const training::Tiles tiles = tiles_of(self, grid);
  fits(tiles, tiles.stride, into.array, "values");
  const std::size_t size = self.dct.size();
  require(from.array.count() == tiles.down * tiles.across * size, "coefficients have another size than the tiles");
  const WithoutGil released;
  const training::StandardFloats standard_floats;
  std::vector<training::Coefficient> used;
  for (std::size_t tile = 0; tile < tiles.down * tiles.across; ++tile) {
    const auto all = from.span().subspan(tile * size, size);
    used.clear();
    for (std::uint32_t place = 0; place < size; ++place)
      if (all[place] != 0) used.push_back({place, all[place]});
    const std::size_t row = tile / tiles.across * self.dct.height();
    const std::size_t column = tile % tiles.across * self.dct.width();
    self.dct.backward(used, into.span().data() + row * tiles.stride + column, tiles.stride);
  }
}

// ---- encoders ----

class Encoder {
 public:
  explicit Encoder(LayoutPtr layout) : layout_(std::move(layout)), encoder_(*layout_) {}

  void add(const py::object& values) {
    const Floats from(values, "values", kRead);
    check(from.array.count());
    const WithoutGil released;
    for (std::size_t at = 0; at < from.span().size();) {
      const std::size_t length = encoder_.next()->run.length;
      encoder_.add(from.span().subspan(at, length));
      at += length;
    }
  }

  void add_progress(const py::object& error, const py::object& theta, const py::object& now, float decay) {
    const Floats left(error, "error", kRead);
    const Floats shared(theta, "theta", kRead);
    same_size(left.array, "error", shared.array, "theta");
    const Model model(now, "now", kRead, shared.array, "theta");
    require(model.array.has_value(), "now is None; allowed: an array");
    check(shared.array.count());
    const WithoutGil released;
    training::encode_progress(encoder_, left.span(), shared.span(), model.held_const(), decay);
  }

  void add_momentum(const TileDct& dct, const Grid& grid, const py::object& error, const py::object& gradient,
                    std::size_t stride, float decay, float lr) {
    const Floats left(error, "error", kRead);
    const training::Tiles tiles = tiles_of(dct, grid);
    fits(tiles, tiles.stride, left.array, "error");
    const TileMemory gradients(gradient, "gradient", kRead, tiles, stride);
    check(tiles.down * tiles.across * dct.dct.size());
    require(encoder_.next()->run.length == dct.dct.size(), "a chunk has another size than the tile");
    const WithoutGil released;
    training::encode_momentum(encoder_, tiles, left.span().data(), {gradients.type, gradients.memory(), stride},
                              {.decay = decay, .lr = lr});
  }

  [[nodiscard]] std::uint64_t size() const {
    require(!encoder_.next(), "chunks are missing");
    return encoder_.size();
  }

  void write(const py::object& block, std::optional<float> weight, bool has_newcomers, double rate) const {
    const Array into(block, "block", kWrite);
    const auto bytes = bytes_of(into, "block");
    require(bytes.size() == size(), "the block has another size");
    const WithoutGil released;
    encoder_.write({.weight = weight, .has_newcomers = has_newcomers, .rate = rate}, std::as_writable_bytes(bytes));
  }

 private:
  // The next chunks of a tensor have so many elements.
  void check(std::uint64_t count) const {
    if (count == 0) return;
    const auto next = encoder_.next();
    require(next.has_value(), "all chunks are encoded");
    (void)range_of(*layout_, next->tensor, next->begin, count);
  }

  LayoutPtr layout_;
  training::SparseEncoder encoder_;
};

// ---- blocks ----

class Block {
 public:
  Block(LayoutPtr layout, Array bytes, training::SparseBlock block)
      : layout_(std::move(layout)), bytes_(std::move(bytes)), block_(std::move(block)) {}

  // A block; or what is wrong with the bytes: kind, at, found, allowed, other, number, second.
  static py::object decode(const LayoutPtr& layout, const py::object& block) {
    Array bytes(block, "block", kRead);
    const auto all = bytes_of(bytes, "block");
    std::variant<training::SparseBlock, training::SparseFlaw> result = training::SparseFlaw{};
    {
      const WithoutGil released;
      result = training::SparseBlock::decode(*layout, std::as_bytes(all));
    }
    if (const auto* flaw = std::get_if<training::SparseFlaw>(&result)) {
      return py::make_tuple(static_cast<int>(flaw->kind), flaw->at, flaw->found, flaw->allowed, flaw->other,
                            flaw->number, flaw->second);
    }
    auto good = std::get<training::SparseBlock>(std::move(result));
    return py::cast(std::make_shared<Block>(layout, std::move(bytes), std::move(good)));
  }

  [[nodiscard]] const training::SparseBlock& block() const { return block_; }
  [[nodiscard]] const LayoutPtr& layout() const { return layout_; }
  [[nodiscard]] std::uint64_t count(std::size_t tensor) const {
    check(tensor);
    return block_.elements_of(tensor);
  }
  [[nodiscard]] double energy(std::size_t tensor) const {
    check(tensor);
    return block_.energy(tensor);
  }

  void read(std::size_t tensor, const py::object& places, const py::object& values) const {
    check(tensor);
    const Array into(places, "places", kWrite);
    if (into.type() != LOCKSTEP_I64) refuse_dtype("places", into, "int64");
    const Floats numbers(values, "values", kWrite);
    require(into.count() == count(tensor) && numbers.array.count() == count(tensor), "arrays of another size");
    const WithoutGil released;
    auto* out = static_cast<std::int64_t*>(into.data());
    float* value = numbers.span().data();
    const auto of_code = block_.values(tensor);
    std::uint64_t element = block_.first_element(tensor);
    std::uint64_t chunk = layout_->first_chunk(tensor);
    std::int64_t begin = 0;
    for (const training::SparseRun& run : layout_->runs(tensor)) {
      for (std::uint64_t i = 0; i < run.chunks; ++i, begin += run.length) {
        for (const std::uint64_t end = element + block_.count(chunk++); element < end; ++element) {
          *out++ = begin + block_.place(element);
          *value++ = of_code.of_code[block_.code(element)];
        }
      }
    }
  }

 private:
  void check(std::size_t tensor) const { require(tensor < layout_->tensors(), "there is no such tensor"); }

  LayoutPtr layout_;
  Array bytes_;
  training::SparseBlock block_;
};

// ---- averages and steps ----

class Average {
 public:
  Average(std::vector<std::shared_ptr<Block>> blocks, bool counts_absent, bool clips)
      : layout_(common(blocks)), blocks_(std::move(blocks)), average_(make(counts_absent, clips)) {}

  [[nodiscard]] float total() const { return average_.total(); }

  void average(std::size_t tensor, const py::object& out) const {
    const Floats into(out, "out", kWrite);
    const auto at = range_of(*layout_, tensor, 0, into.array.count());
    const WithoutGil released;
    average_.average(at.tensor, at.first, into.span());
  }

  void sparse_step(const std::optional<std::shared_ptr<Block>>& own, std::size_t tensor, std::uint64_t begin,
                   const py::object& error, const py::object& theta, const py::object& now, const py::object& model,
                   float decay, float lr) const {
    const Floats left(error, "error", kWrite);
    const Floats shared(theta, "theta", kWrite);
    same_size(left.array, "error", shared.array, "theta");
    const Model before(now, "now", kRead, shared.array, "theta");
    require(before.array.has_value(), "now is None; allowed: an array");
    const Model after(model, "model", kWrite, shared.array, "theta");
    const training::SparseStep step{.own = own ? &(*own)->block() : nullptr,
                                    .at = range_of(*layout_, tensor, begin, shared.array.count()),
                                    .decay = decay,
                                    .lr = lr};
    const WithoutGil released;
    training::sparse_step(average_, step, left.span(), shared.span(), before.held_const(), after.held());
  }

  void sign_step(const std::optional<std::shared_ptr<Block>>& own, std::size_t tensor, std::uint64_t begin,
                 const TileDct& dct, const Grid& grid, const py::object& error, const py::object& theta,
                 const py::object& gradient, std::size_t stride, const py::object& model, float decay, float lr,
                 float remains) const {
    const Floats left(error, "error", kWrite);
    const Floats shared(theta, "theta", kWrite);
    const training::Tiles tiles = tiles_of(dct, grid);
    fits(tiles, tiles.stride, left.array, "error");
    fits(tiles, tiles.stride, shared.array, "theta");
    const TileMemory gradients(gradient, "gradient", kRead, tiles, stride);
    const TileMemory after(model, "model", kWrite, tiles, tiles.stride);
    const std::uint64_t count = tiles.down * tiles.across * dct.dct.size();
    const training::SignStep step{.own = own ? &(*own)->block() : nullptr,
                                  .at = range_of(*layout_, tensor, begin, count),
                                  .rates = {.decay = decay, .lr = lr},
                                  .remains = remains};
    require(layout_->chunk(tensor, step.at.first).run.length == dct.dct.size(),
            "a chunk has another size than the tile");
    const WithoutGil released;
    training::sign_step(average_, step, tiles, left.span().data(), shared.span().data(),
                        {gradients.type, gradients.memory(), stride}, {after.type, after.memory(), tiles.stride});
  }

 private:
  // The layout of all blocks.
  static LayoutPtr common(const std::vector<std::shared_ptr<Block>>& blocks) {
    require(!blocks.empty(), "there are no blocks");
    for (const auto& block : blocks)
      require(block && block->layout() == blocks.front()->layout(), "blocks of two layouts");
    return blocks.front()->layout();
  }

  [[nodiscard]] training::SparseAverage make(bool counts_absent, bool clips) const {
    std::vector<const training::SparseBlock*> blocks;
    for (const auto& block : blocks_) blocks.push_back(&block->block());
    const WithoutGil released;
    return {*layout_, std::move(blocks), {.counts_absent = counts_absent, .clips = clips}};
  }

  LayoutPtr layout_;
  std::vector<std::shared_ptr<Block>> blocks_;
  training::SparseAverage average_;
};

// ---- random bits ----

using Key = std::pair<std::uint32_t, std::uint32_t>;
using Rest = std::array<std::uint32_t, 3>;

void philox(std::uint32_t first, const Rest& rest, const Key& key, const py::object& words) {
  const Array into(words, "words", kWrite);
  if (into.type() != LOCKSTEP_U32) refuse_dtype("words", into, "uint32");
  require(into.count() % 4 == 0 && std::uint64_t{first} + into.count() / 4 <= std::uint64_t{1} << 32U,
          "words are those of counters below 2**32");
  const WithoutGil released;
  training::philox_words(first, rest, {key.first, key.second},
                         {static_cast<std::uint32_t*>(into.data()), into.count()});
}

void direction(std::uint64_t first, const Rest& rest, const Key& key, float slope, const py::object& values) {
  const Floats into(values, "values", kWrite);
  require(first % 128 == 0 && first + into.array.count() <= std::uint64_t{1} << 39U,
          "a direction has at most 2**39 elements, and begins at a multiple of 128");
  const WithoutGil released;
  training::direction(first, rest, {key.first, key.second}, slope, into.span());
}

class SketchHash {
 public:
  SketchHash(std::uint64_t count, std::size_t each, std::size_t last, const Key& key)
      : hash_{.count = count, .each = each, .last = last, .key = {key.first, key.second}} {
    require(hash_.is_valid(), "a sketch has at most 2**35 elements, and 1 to 4096 buckets for each chunk");
  }

  [[nodiscard]] std::size_t buckets() const { return hash_.buckets(); }

  void sketch(std::uint64_t turn, std::uint64_t first, const py::object& values, const py::object& buckets) const {
    const Floats from(values, "values", kRead);
    const Floats into(buckets, "buckets", kWrite);
    check(first, from.array.count(), into.array.count());
    const auto hash = of(turn);
    const WithoutGil released;
    training::sketch(hash, first, from.span(), into.span());
  }

  void unsketch(std::uint64_t turn, std::uint64_t first, const py::object& values, const py::object& buckets) const {
    const Floats into(values, "values", kWrite);
    const Floats from(buckets, "buckets", kRead);
    check(first, into.array.count(), from.array.count());
    const auto hash = of(turn);
    const WithoutGil released;
    training::unsketch(hash, first, into.span(), from.span());
  }

 private:
  void check(std::uint64_t first, std::uint64_t count, std::uint64_t buckets) const {
    constexpr std::uint64_t kChunk = training::SketchHash::kChunk;
    require(buckets == hash_.buckets(), "there are other numbers of buckets");
    require(first % kChunk == 0 && first <= hash_.count && count <= hash_.count - first &&
                (count % kChunk == 0 || first + count == hash_.count),
            "values are not whole chunks");
  }
  [[nodiscard]] training::SketchHash of(std::uint64_t turn) const {
    training::SketchHash hash = hash_;
    hash.turn = turn;
    return hash;
  }

  training::SketchHash hash_;
};

void define_blocks(py::module_& module) {
  py::class_<SparseLayout, std::shared_ptr<SparseLayout>>(
      module, "SparseLayout",
      "How tensors are cut into chunks: for each tensor, runs of (chunks, length of a chunk, most kept elements).")
      .def(py::init(&make_layout), py::arg("tensors"))
      .def_property_readonly("most_bytes", &SparseLayout::most_bytes, "Size of the largest block.");
  py::class_<Encoder>(module, "SparseEncoder",
                      "Writes a block of the largest elements, chunk after chunk, in the order of the layout.")
      .def(py::init<LayoutPtr>(), py::arg("layout"))
      .def("add", &Encoder::add, py::arg("values"), "The next chunks: whole ones, of one tensor.")
      .def("add_progress", &Encoder::add_progress, py::arg("error"), py::arg("theta"), py::arg("now"), py::arg("decay"),
           "The next chunks, of decay * error + (theta - now); now: float32, bfloat16 or float16.")
      .def("add_momentum", &Encoder::add_momentum, py::arg("dct"), py::arg("grid"), py::arg("error"),
           py::arg("gradient"), py::arg("stride"), py::arg("decay"), py::arg("lr"),
           R"(The next chunks, of DCT(decay * error + lr * gradient), for tiles.

grid: how many tiles are below each other and side by side, and the elements from row to row of error.
gradient: None for zeros. stride: the elements from row to row of gradient. Arrays begin with the first tile.)")
      .def_property_readonly("size", &Encoder::size, "Bytes of the block, after the last chunk.")
      .def("write", &Encoder::write, py::arg("block"), py::arg("weight"), py::arg("has_newcomers"), py::arg("rate"),
           "Writes the block into an array of bytes.");
  py::class_<Block, std::shared_ptr<Block>>(module, "SparseBlock", "A block that was checked.")
      .def_static("decode", &Block::decode, py::arg("layout"), py::arg("block"),
                  "Reads any bytes: a SparseBlock, or what is wrong with them as (kind, at, found, allowed, other, "
                  "number, second).")
      .def_property_readonly("weight", [](const Block& self) { return self.block().header().weight; })
      .def_property_readonly("has_newcomers", [](const Block& self) { return self.block().header().has_newcomers; })
      .def_property_readonly("rate", [](const Block& self) { return self.block().header().rate; })
      .def("count", &Block::count, py::arg("tensor"), "Elements of a tensor in the block.")
      .def("energy", &Block::energy, py::arg("tensor"), "Sum of the squares of a tensor's values.")
      .def("read", &Block::read, py::arg("tensor"), py::arg("places"), py::arg("values"),
           "Sets arrays of int64 and float32 to the elements of a tensor.");
  py::class_<Average>(module, "SparseAverage", "The average of blocks, and steps along it.")
      .def(py::init<std::vector<std::shared_ptr<Block>>, bool, bool>(), py::arg("blocks"), py::arg("counts_absent"),
           py::arg("clips"))
      .def_property_readonly("total", &Average::total, "Sum of the weights.")
      .def("average", &Average::average, py::arg("tensor"), py::arg("out"), "Sets out to the average of a tensor.")
      .def("sparse_step", &Average::sparse_step, py::arg("own"), py::arg("tensor"), py::arg("begin"), py::arg("error"),
           py::arg("theta"), py::arg("now"), py::arg("model"), py::arg("decay"), py::arg("lr"),
           R"(The step of SparseLoCo, for whole chunks of a tensor from element begin on.

error = decay * error + (theta - now) - own; theta = theta - lr * average; model, unless None, becomes theta.
own: a block, or None.)")
      .def("sign_step", &Average::sign_step, py::arg("own"), py::arg("tensor"), py::arg("begin"), py::arg("dct"),
           py::arg("grid"), py::arg("error"), py::arg("theta"), py::arg("gradient"), py::arg("stride"),
           py::arg("model"), py::arg("decay"), py::arg("lr"), py::arg("remains"),
           R"(The step of DeMo, for tiles as in SparseEncoder.add_momentum().

error = decay * error + lr * gradient - inverse DCT(own);
theta = remains * theta - lr * sign(inverse DCT(average)); model, unless None, becomes theta.
begin: the first of the tiles' coefficients, in the tensor.)");
}

void define_all(py::module_& module) {
  py::class_<TileDct>(module, "TileDct", "The DCT-II of tiles of height * width elements, and its inverse.")
      .def(py::init<std::size_t, std::size_t>(), py::arg("height"), py::arg("width"))
      .def("forward", &forward, py::arg("values"), py::arg("coefficients"), py::arg("grid"),
           "Sets coefficients, tile after tile; grid as in SparseEncoder.add_momentum().")
      .def("backward", &backward, py::arg("coefficients"), py::arg("values"), py::arg("grid"), "The inverse.");
  define_blocks(module);
  py::class_<SketchHash>(module, "SketchHash", "The hash functions of count sketches, in chunks of 4096 elements.")
      .def(py::init<std::uint64_t, std::size_t, std::size_t, const Key&>(), py::arg("count"), py::arg("each"),
           py::arg("last"), py::arg("key"))
      .def_property_readonly("buckets", &SketchHash::buckets, "Number of all buckets.")
      .def("sketch", &SketchHash::sketch, py::arg("turn"), py::arg("first"), py::arg("values"), py::arg("buckets"),
           "Sets the buckets of whole chunks from element first on.")
      .def("unsketch", &SketchHash::unsketch, py::arg("turn"), py::arg("first"), py::arg("values"), py::arg("buckets"),
           "Sets values to their buckets, with the signs taken back.");
  module.def("cosines", &training::cosines, py::arg("count"),
             "The matrix of the DCT-II of count elements, times 2**15, as integers, row by row.");
  module.def("philox", &philox, py::arg("first"), py::arg("rest"), py::arg("key"), py::arg("words"),
             "Sets words to those of the counters (first, *rest), (first + 1, *rest), ...: 4 words for each.");
  module.def("direction", &direction, py::arg("first"), py::arg("rest"), py::arg("key"), py::arg("slope"),
             py::arg("values"), "Sets values to slope or -slope, by bits of Philox from bit first on.");
}

}  // namespace
}  // namespace sparse

void define_sparse_kernels(py::module_& module) { sparse::define_all(module); }

}  // namespace lockstep::python
