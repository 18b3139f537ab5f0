#include "node/codes/code_adder.h"

#include <algorithm>
#include <utility>

#include "base/planted.h"
#include "node/codes/coded_payload.h"

namespace square {
namespace {

// As a fault of memory would leave it.
Buffer spoiled(const Buffer& bytes) {
  std::vector<std::byte> copy(bytes.size_bytes());
  bytes.copy_to(copy.data());
  if (!copy.empty()) copy[copy.size() / 2] ^= std::byte{0x10};
  return Buffer::copy_of(copy);
}

// What goes on of what came for each term of the stream.
std::optional<Buffer> sum_of_terms(const LocalStream& stream, bool are_floats,
                                   const std::vector<Buffer>& inputs) {
  const auto [part, code] = stream.coded_as(are_floats);
  std::vector<double> factors;
  std::vector<CodedPayload> payloads;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    auto payload = payload_of_frame(inputs[i], *code, stream.terms[i]->block);
    if (!payload) return std::nullopt;
    payloads.push_back(*std::move(payload));
    factors.push_back(part->terms[i].second);
  }
  auto sum = sum_of_payloads(*code, factors, payloads);
  if (!sum) return std::nullopt;
  if (is_planted(Bug::kSumSpoiled)) sum->sum = spoiled(sum->sum);
  return to_bytes(*sum, *code);
}

}  // namespace

CodeAdder::CodeAdder(std::shared_ptr<NodeContext> node, std::shared_ptr<const InstalledCollective> plan,
                     const LocalStream& stream, std::vector<std::shared_ptr<OutgoingStream>> children)
    : node_(std::move(node)), plan_(std::move(plan)), stream_(stream), children_(std::move(children)) {}

CodeAdder::~CodeAdder() { node_->executor.cancel(forget_timer_); }

CodeAdder::Operation* CodeAdder::open(OperationId id) {
  const auto found = operations_.find(id);
  if (found != operations_.end()) return &found->second;
  if (operations_.size() >= kMaxAddedOperations && !make_room()) return nullptr;
  Operation& made = operations_[id];
  made.terms.resize(stream_.terms.size());
  forget_later();
  return &made;
}

bool CodeAdder::Operation::is_waiting() const {
  return is_adding || std::ranges::any_of(terms, [](const Term& term) { return !term.waiting.empty(); });
}

bool CodeAdder::make_room() {
  const auto idle =
      std::ranges::find_if(operations_, [](const auto& entry) { return !entry.second.is_waiting(); });
  if (idle == operations_.end()) return false;
  operations_.erase(idle);
  return true;
}

CodeAdder::Term& CodeAdder::term_of(Operation& operation, const LocalStream& term) const {
  const auto position = std::ranges::find(stream_.terms, &term) - stream_.terms.begin();
  return operation.terms[static_cast<std::size_t>(position)];
}

void CodeAdder::on_block(const LocalStream& from, const Frame& frame, const std::shared_ptr<void>& guard) {
  Operation* const operation = open(frame.header.operation);
  if (operation == nullptr) return node_->refuse_frame();
  Term& term = term_of(*operation, from);
  // Numbers grow: what does not is nobody's other half.
  if (frame.header.stream_sequence <= term.seen) return node_->refuse_frame();
  term.seen = frame.header.stream_sequence;
  term.waiting.push_back({frame, guard, node_->clock.now()});
  go_on(frame.header.operation, *operation);
}

void CodeAdder::on_probe(const LocalStream& from, const FrameHeader& header) {
  Operation* const operation = open(header.operation);
  if (operation == nullptr) return;
  Term& term = term_of(*operation, from);
  term.seen = std::max(term.seen, header.stream_sequence);
  term.is_probed = true;
  operation->probe = header;
  go_on(header.operation, *operation);
}

bool CodeAdder::drop_alone(Operation& operation) {
  while (true) {
    std::uint64_t newest = 0;
    bool is_whole = true;
    for (const Term& term : operation.terms) {
      is_whole = is_whole && !term.waiting.empty();
      // Where none waits, all up to what was seen is over.
      const std::uint64_t next =
          term.waiting.empty() ? term.seen + 1 : term.waiting.front().frame.header.stream_sequence;
      newest = std::max(newest, next);
    }
    bool has_dropped = false;
    for (Term& term : operation.terms) {
      while (!term.waiting.empty() && term.waiting.front().frame.header.stream_sequence < newest) {
        term.waiting.pop_front();
        has_dropped = true;
      }
    }
    if (!has_dropped) return !is_whole;
  }
}

void CodeAdder::go_on(OperationId id, Operation& operation) {
  operation.used_at = node_->clock.now();
  if (operation.is_adding) return;
  if (!drop_alone(operation)) return add(id, operation);
  if (std::ranges::all_of(operation.terms, &Term::is_probed)) send_probe(operation);
}

void CodeAdder::add(OperationId id, Operation& operation) {
  std::vector<Buffer> inputs;
  auto guards = std::make_shared<std::vector<std::shared_ptr<void>>>();
  FrameHeader sum;
  bool agree = true;
  for (std::size_t i = 0; i < operation.terms.size(); ++i) {
    Item item = std::move(operation.terms[i].waiting.front());
    operation.terms[i].waiting.pop_front();
    FrameHeader header = item.frame.header;
    header.offset_bytes = stream_.terms[i]->generation_offset(header);
    if (i == 0) sum = header;
    sum.is_audited = sum.is_audited || header.is_audited;
    agree = agree && header.offset_bytes == sum.offset_bytes && header.total_bytes == sum.total_bytes &&
            header.block_bytes == sum.block_bytes && header.element_type == sum.element_type;
    inputs.push_back(std::move(item.frame.payload));
    guards->push_back(std::move(item.guard));
  }
  // Who numbers other generations alike, or codes one in two ways, is not followed.
  if (!agree) return node_->refuse_frame();
  set_stream(sum, stream_.key);
  operation.is_adding = true;
  std::size_t bytes = 0;
  for (const Buffer& input : inputs) bytes += input.size_bytes();
  auto done = life_.bind([this, id](const std::optional<Frame>& made, const std::shared_ptr<void>& guard) {
    on_added(id, made, guard);
  });
  node_->executor.work(bytes, [executor = &node_->executor, plan = plan_, stream = &stream_,
                               inputs = std::move(inputs), guards = std::move(guards), header = sum,
                               done = std::move(done)]() mutable {
    std::optional<Frame> made;
    if (auto payload = sum_of_terms(*stream, has_floats(header), inputs))
      made = Frame{header, *std::move(payload)};
    inputs.clear();
    executor->post([done = std::move(done), made = std::move(made), guards = std::move(guards)]() mutable {
      done(made, std::shared_ptr<void>(std::move(guards)));
    });
  });
}

void CodeAdder::on_added(OperationId id, const std::optional<Frame>& sum,
                         const std::shared_ptr<void>& guard) {
  if (!sum) node_->refuse_frame();
  // Dropped meanwhile: the operation was aborted.
  const auto found = operations_.find(id);
  if (found == operations_.end()) return;
  if (sum) {
    if (sum->header.is_audited) node_->auditor.note(*sum, "");
    for (const auto& child : children_) child->enqueue(*sum, guard);
  }
  found->second.is_adding = false;
  go_on(id, found->second);
}

void CodeAdder::send_probe(Operation& operation) {
  Frame frame{*operation.probe, {}};
  set_stream(frame.header, stream_.key);
  for (Term& term : operation.terms) {
    frame.header.stream_sequence = std::min(frame.header.stream_sequence, term.seen);
    term.is_probed = false;
  }
  for (const auto& child : children_) child->enqueue(frame, nullptr);
}

Duration CodeAdder::patience(const Operation& operation) const {
  for (const Term& term : operation.terms) {
    if (term.waiting.empty()) continue;
    const double bits = static_cast<double>(term.waiting.front().frame.header.block_bytes) * kBitsPerByte;
    return std::max(kAdderPatience,
                    from_seconds(std::min(60.0, kAdderPatienceBlocks * bits / stream_.rate_bps)));
  }
  return kAdderMemory;
}

void CodeAdder::forget_later() {
  if (forget_timer_ != 0) return;
  forget_timer_ = node_->executor.post_at(node_->clock.now() + kAdderMemory, life_.bind([this] {
    forget_timer_ = 0;
    const TimePoint now = node_->clock.now();
    for (auto& [id, operation] : operations_) {
      const Duration longest = patience(operation);
      for (Term& term : operation.terms)
        std::erase_if(term.waiting, [&](const Item& item) { return now - item.came_at >= longest; });
    }
    std::erase_if(operations_, [&](const auto& entry) {
      return !entry.second.is_waiting() && now - entry.second.used_at >= kAdderMemory;
    });
    if (!operations_.empty()) forget_later();
  }));
}

}  // namespace square
