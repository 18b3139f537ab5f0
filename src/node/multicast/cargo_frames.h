// What a source sends, cut into blocks, and the frames that carry them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "node/audit/auditor.h"
#include "node/multicast/sealing.h"
#include "node/plan/installed_collective.h"
#include "square/buffer.h"
#include "square/frame.h"

namespace square {

class CargoFrames {
 public:
  struct What {
    OperationId operation;
    std::uint32_t incarnation = 0;
    std::uint16_t call = 0;
    Epoch layout{0};
    Buffer data;
    std::size_t block_bytes = 0;
    ElementType elements = ElementType::kBytes;  // codes of floats are for kFloat32 only
    SessionId session;
    Sealing sealing{};
    Auditor* auditor = nullptr;  // of the node; none: nothing is audited
  };
  explicit CargoFrames(What what);

  [[nodiscard]] std::size_t block_bytes() const { return what_.block_bytes; }
  // Also an operation of no bytes tells its destinations so: with one empty block.
  [[nodiscard]] std::size_t block_count() const;

  // `sequence`: the number of the block on its stream.
  [[nodiscard]] Frame block(const LocalStream& local, std::size_t block, std::uint64_t sequence) const;
  // What the stream of a code carries of the generation that begins with block `first`. Where flows meet at
  // the source itself it adds here and now.
  [[nodiscard]] Frame of_generation(const LocalStream& local, std::size_t first, std::uint64_t sequence,
                                    bool are_floats) const;
  // Would the code, of floats, keep the digits of all blocks of the generation? Reads them.
  [[nodiscard]] bool can_be_floats(const PlanCode& code, std::size_t first) const;
  [[nodiscard]] Frame probe(const LocalStream& local, std::uint64_t sequence) const;

 private:
  [[nodiscard]] FrameHeader header(const LocalStream& local, FrameType type, std::uint64_t sequence) const;
  [[nodiscard]] Buffer data_of(std::size_t block) const;
  // Sealed, if it is to be. Nothing past the end: the last generation of a code has such blocks.
  [[nodiscard]] Buffer payload_of(std::size_t block) const;
  [[nodiscard]] Buffer sum_of(const LocalStream& local, std::size_t first, bool are_floats) const;
  [[nodiscard]] Frame sent_often(const LocalStream& local, FrameHeader header, Buffer payload) const;

  const What what_;
  std::unique_ptr<const trust::BlockCipher> cipher_;  // none: blocks go as they are
};

}  // namespace square
