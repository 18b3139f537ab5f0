// Coded blocks: what makes, mixes and solves them.
#include "bindings.h"
#include "buffers.h"
#include "element.h"
#include "square/decoder.h"
#include "square/encoder.h"
#include "square/recoder.h"
#include "whole_number.h"

namespace square::python {
namespace {

using Coefficients = std::vector<double>;

FieldKind field_named(const std::string& name) {
  for (const FieldKind kind : {FieldKind::kGf256, FieldKind::kGf65536, FieldKind::kFloat32}) {
    if (name == to_string(kind)) return kind;
  }
  raise(invalid_argument("there is no field \"" + name + "\": use \"gf256\", \"gf65536\" or \"float32\""));
}

// Keeps the memory of Python's until the last block that shows it is gone, from whatever thread.
std::shared_ptr<const void> owner_of(std::shared_ptr<py::buffer_info> view) {
  auto* const held = new std::shared_ptr<py::buffer_info>(std::move(view));
  return {held, [](const std::shared_ptr<py::buffer_info>* kept) {
            if (Py_IsInitialized() == 0) return;
            const py::gil_scoped_acquire lock;
            delete kept;
          }};
}

Encoder make_encoder(const Data& data, Count<"blocks"> blocks, const std::string& field,
                     Size<"number"> number) {
  const auto view = request(data, false);
  const EncoderOptions options{number, field_named(field), blocks, known_element_type(*view)};
  const std::span<std::byte> bytes = bytes_of(*view);
  return check(Encoder::make(options, bytes, owner_of(view)));
}

// A decoder and the memory that it writes to.
class DecoderInto {
 public:
  DecoderInto(const Generation& generation, const Data& data)
      : view_(request(data, true)),
        decoder_(check(Decoder::make(generation, bytes_of(*view_), known_element_type(*view_)))) {}
  bool add(const CodedBlock& block) {
    return check(unlocked([&] { return decoder_.add(block); }));
  }
  [[nodiscard]] std::uint32_t rank() const { return decoder_.rank(); }
  void finish() {
    check(unlocked([&] { return decoder_.finish(); }));
  }

 private:
  std::shared_ptr<py::buffer_info> view_;
  Decoder decoder_;
};

py::bytes bytes_from(const Buffer& buffer) {
  py::bytes bytes = py::reinterpret_steal<py::bytes>(
      PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(buffer.size_bytes())));
  if (!bytes) throw py::error_already_set();
  buffer.copy_to(reinterpret_cast<std::byte*>(PyBytes_AS_STRING(bytes.ptr())));
  return bytes;
}

CodedBlock parse(const Data& data) {
  const auto view = request(data, false);
  return check(parse_coded_block(Buffer::copy_of(bytes_of(*view))));
}

void bind_blocks(py::module_& module) {
  py::class_<Generation>(module, "Generation",
                         "A run of bytes that is cut into ``blocks`` blocks of one length, to be coded.")
      .def(py::init([](Count<"blocks"> blocks, Size<"data_bytes"> data_bytes, const std::string& field,
                       Size<"number"> number) {
             const Generation made{number, field_named(field), blocks, data_bytes};
             check(check_generation(made));
             return made;
           }),
           py::arg("blocks"), py::arg("data_bytes"), py::arg("field") = "gf256", py::arg("number") = 0)
      .def_readonly("number", &Generation::number, "The caller's own.")
      .def_property_readonly("field",
                             [](const Generation& self) { return std::string(to_string(self.field)); })
      .def_readonly("blocks", &Generation::blocks, "How many decode: K.")
      .def_readonly("data_bytes", &Generation::data_bytes)
      .def_property_readonly("block_bytes", &Generation::block_bytes, "Of a block, padding included.")
      .def("__eq__",
           [](const Generation& self, const py::object& other) {
             return py::isinstance<Generation>(other) && self == other.cast<Generation>();
           })
      .def("__hash__",
           [](const Generation& self) {
             return py::hash(
                 py::make_tuple(self.number, static_cast<int>(self.field), self.blocks, self.data_bytes));
           })
      .def("__repr__", [](const Generation& self) { return to_string(self); });
  py::class_<CodedBlock>(module, "CodedBlock", "A sum of multiples of a generation's blocks, and of which.")
      .def_readonly("generation", &CodedBlock::generation)
      .def_readonly("coefficients", &CodedBlock::coefficients, "A number of the field for each block.")
      .def_property_readonly("systematic_index", &CodedBlock::systematic_index,
                             "Which block it is as it is; None for a sum.")
      .def_property_readonly(
          "payload", [](const CodedBlock& self) { return bytes_from(self.payload); }, "A copy.")
      .def(
          "tobytes", [](const CodedBlock& self) { return bytes_from(to_bytes(self)); },
          "Header, coefficients, payload and a checksum of them, to be sent or stored.")
      .def_static("parse", &parse, py::arg("data"),
                  "What tobytes() gave. Raises DataLossError where it was cut off or changed.");
}

void bind_encoder(py::module_& module) {
  py::class_<Encoder>(module, "Encoder",
                      "Makes coded blocks of a buffer or tensor, which it cuts into ``blocks`` blocks and "
                      "keeps: do not change it "
                      "meanwhile. ``field``: \"gf256\" gives every bit back, as does \"gf65536\"; "
                      "\"float32\" computes with the "
                      "numbers, of float32, float16 or bfloat16, and rounds.")
      .def(py::init(&make_encoder), py::arg("data"), py::arg("blocks"), py::arg("field") = "gf256",
           py::arg("number") = 0)
      .def_property_readonly(
          "generation", &Encoder::generation,
          "Its field is \"gf256\" where floats would lose too much: there is a NaN, an infinity, or "
          "one block's scale is 10,000 times another's.")
      .def(
          "systematic",
          [](const Encoder& self, Count<"index"> index) {
            if (index >= self.generation().blocks) {
              raise(invalid_argument("there is no block " + std::to_string(index) + " in " +
                                     to_string(self.generation())));
            }
            return self.systematic(index);
          },
          py::arg("index"), "One of the blocks as it is.")
      .def(
          "coded",
          [](const Encoder& self, const Coefficients& coefficients) {
            return check(unlocked([&] { return self.coded(coefficients); }));
          },
          py::arg("coefficients"), "The sum of multiples of the blocks.")
      .def(
          "next", [](Encoder& self) { return unlocked([&] { return self.next(); }); },
          "The blocks as they are, then sums of them without end. Any K of the first 256 decode.");
}

void bind_recoder(py::module_& module) {
  py::class_<Recoder>(module, "Recoder", "Keeps blocks of a generation and mixes them, without decoding.")
      .def(py::init([](const Generation& generation) { return check(Recoder::make(generation)); }),
           py::arg("generation"))
      .def(
          "add", [](Recoder& self, const CodedBlock& block) { return check(self.add(block)); },
          py::arg("block"), "False where it says nothing new; else it is kept.")
      .def_property_readonly("rank", &Recoder::rank, "How many blocks are kept.")
      .def(
          "coded",
          [](const Recoder& self, const Coefficients& coefficients) {
            return check(unlocked([&] { return self.coded(coefficients); }));
          },
          py::arg("coefficients"),
          "The sum of multiples of those that are kept, in the order in which they came.")
      .def(
          "next",
          [](Recoder& self, Size<"seed"> seed) { return check(unlocked([&] { return self.next(seed); })); },
          py::arg("seed") = 0, "A random sum. Nodes that mix the same blocks need different seeds.");
}

void bind_decoder(py::module_& module) {
  py::class_<DecoderInto>(module, "Decoder", "Writes the data of a generation into a buffer or tensor.")
      .def(py::init<const Generation&, const Data&>(), py::arg("generation"), py::arg("data"))
      .def("add", &DecoderInto::add, py::arg("block"), "False where it says nothing new.")
      .def_property_readonly("rank", &DecoderInto::rank, "K are enough.")
      .def("finish", &DecoderInto::finish,
           "Solves for what did not come as it is; writes halves that were coded as float32. Raises "
           "FailedPreconditionError \"not yet decodable: rank "
           "2 of 3\".");
}

}  // namespace

void bind_coding(py::module_& module) {
  bind_blocks(module);
  bind_encoder(module);
  bind_recoder(module);
  bind_decoder(module);
}

}  // namespace square::python
