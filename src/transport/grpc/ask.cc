#include "transport/grpc/ask.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/generic/generic_stub.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "base/net/percent.h"
#include "base/net/socket.h"
#include "square/grpc_transport.h"
#include "square/transport.h"
#include "transport/grpc/channel_settings.h"
#include "transport/grpc/dial.h"
#include "transport/grpc/sealed_dial.h"

namespace square::rpc {
namespace {

using AskClock = std::chrono::steady_clock;

// How often those that are late are looked for.
constexpr std::chrono::milliseconds kLookInterval{20};

bool says(const std::string& words, int error) {
  return words.find(std::strerror(error)) != std::string::npos;
}

// The dialler says it in words only, those of the system.
Reach reach_of_dial(const std::string& words) {
  if (says(words, ECONNREFUSED)) return Reach::kRefused;
  if (says(words, ETIMEDOUT)) return Reach::kTimedOut;
  for (const int error : {EHOSTUNREACH, ENETUNREACH, EACCES, EPERM, EINVAL}) {
    if (says(words, error)) return Reach::kUnreachable;
  }
  return words.find("is not known") != std::string::npos ? Reach::kUnresolved : Reach::kOther;
}

class Ask {
 public:
  enum class Step : std::uint8_t { kDialled, kStarted, kFinished };
  struct Tag {
    Ask* ask = nullptr;
    Step step = Step::kDialled;
  };

  Ask(const Self& self, const AskedNode& to, grpc::CompletionQueue& queue,
      const grpc::ChannelArguments& arguments)
      : self_(self), queue_(queue), arguments_(arguments) {
    asked_.to = to;
  }

  void begin(Dialler& dialler) {
    deadline_ = AskClock::now() + kAskDeadline;
    dial_ = dialler.dial(asked_.to.address, queue_, expect(Step::kDialled));
  }

  // An event of the queue. False when it was the last.
  bool proceed(Step step) {
    switch (step) {
      case Step::kDialled: return on_dialled(dial_->take());
      case Step::kStarted: stream_->Finish(&status_, expect(Step::kFinished)); return true;
      case Step::kFinished: conclude(); return false;
    }
    return false;
  }

  // Because it took too long, or all is over before it did.
  void give_up(bool is_late) {
    if (std::exchange(given_up_, true)) return;
    is_late_ = is_late;
    if (context_) {
      context_->TryCancel();
    } else {
      dial_->give_up();
    }
  }

  [[nodiscard]] bool is_late(AskClock::time_point now) const { return now >= deadline_; }
  [[nodiscard]] Asked take() { return std::move(asked_); }

 private:
  void* expect(Step step) {
    Tag& tag = tags_[static_cast<std::size_t>(step)];
    tag = {this, step};
    return &tag;
  }

  bool on_dialled(Result<net::FileDescriptor> dialled) {
    if (!dialled.is_ok()) {
      asked_.words = given_up_ ? "nothing answers" : dialled.status().message();
      asked_.reach = given_up_ ? given_up_as(Reach::kTimedOut) : reach_of_dial(asked_.words);
      return false;
    }
    note_socket(dialled->get());
    deadline_ = AskClock::now() + kAskDeadline;
    if (self_.identity == nullptr) {
      channel_ = grpc::CreateCustomInsecureChannelFromFd(asked_.to.address, dialled->release(), arguments_);
    } else {
      auto sealed = dial_sealed(self_.identity, asked_.to.name, asked_.to.address, arguments_, kAskDeadline);
      channel_ = std::move(sealed->channel);  // the address was good a moment ago
    }
    context_ = std::make_unique<grpc::ClientContext>();
    context_->AddMetadata(kVersionKey, std::to_string(link_versions().oldest));
    context_->AddMetadata(kNewestKey, std::to_string(link_versions().newest));
    context_->AddMetadata(kFromKey, percent_encode(self_.name));
    context_->AddMetadata(kToKey, percent_encode(asked_.to.name));
    stream_ = grpc::GenericStub(channel_).PrepareCall(context_.get(), kAskMethod, &queue_);
    stream_->StartCall(expect(Step::kStarted));
    if (given_up_) context_->TryCancel();
    return true;
  }

  void note_socket(int socket) {
    asked_.at = net::peer_of(socket);
    tcp_info info{};
    socklen_t size = sizeof(info);
    if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 && info.tcpi_rtt > 0) {
      asked_.round_trip = std::chrono::microseconds(info.tcpi_rtt);
    }
    std::array<char, 32> name{};
    size = name.size() - 1;
    if (getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(), &size) == 0)
      asked_.congestion = name.data();
  }

  [[nodiscard]] Reach given_up_as(Reach late) const { return is_late_ ? late : Reach::kUnfinished; }

  [[nodiscard]] std::string metadata(const char* key) const {
    const auto& all = context_->GetServerInitialMetadata();
    const auto found = all.find(key);
    return found == all.end() ? std::string() : std::string(found->second.data(), found->second.size());
  }

  void conclude() {
    const auto name = net::percent_decode(metadata(kNodeKey));
    if (name.is_ok()) asked_.node = *name;
    asked_.words = status_.error_message().substr(0, kMaxNameBytes);
    asked_.reach = reach_of_answer();
    stream_.reset();
    context_.reset();
    channel_.reset();
  }

  [[nodiscard]] Reach reach_of_answer() const {
    const std::string version = metadata(kVersionKey);
    if (!version.empty() && !link_versions().contains(version_of(version).value_or(0)))
      return Reach::kOtherVersion;
    switch (static_cast<StatusCode>(status_.error_code())) {
      case StatusCode::kOk: return version.empty() ? Reach::kNotSquare : Reach::kReached;
      case StatusCode::kFailedPrecondition: return Reach::kOtherVersion;
      case StatusCode::kUnauthenticated:
      case StatusCode::kPermissionDenied: return Reach::kStranger;
      // The handshake of TLS failed: on a connection that was there a moment ago.
      case StatusCode::kUnavailable:
        if (self_.identity != nullptr) return Reach::kStranger;
        return version.empty() ? Reach::kNotSquare : Reach::kOther;
      case StatusCode::kNotFound: return version.empty() ? Reach::kNotSquare : Reach::kOtherNode;
      // Nodes that do not know the question yet say what they serve.
      case StatusCode::kUnimplemented:
        return asked_.words.find(kMethod) == std::string::npos ? Reach::kNotSquare : Reach::kOtherVersion;
      case StatusCode::kCancelled: return given_up_ ? given_up_as(Reach::kSilent) : Reach::kNotSquare;
      default: return version.empty() ? Reach::kNotSquare : Reach::kOther;
    }
  }

  const Self& self_;
  grpc::CompletionQueue& queue_;
  const grpc::ChannelArguments& arguments_;
  Asked asked_;
  AskClock::time_point deadline_;
  bool given_up_ = false;
  bool is_late_ = false;
  std::array<Tag, 3> tags_;
  std::shared_ptr<Dial> dial_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  grpc::Status status_;
};

}  // namespace

std::string_view to_string(Reach reach) {
  switch (reach) {
    case Reach::kReached: return "reached";
    case Reach::kUnresolved: return "unresolved";
    case Reach::kRefused: return "refused";
    case Reach::kUnreachable: return "unreachable";
    case Reach::kTimedOut: return "timed_out";
    case Reach::kSilent: return "silent";
    case Reach::kNotSquare: return "not_square";
    case Reach::kOtherNode: return "other_node";
    case Reach::kOtherVersion: return "other_version";
    case Reach::kStranger: return "stranger";
    case Reach::kOther: return "other";
    case Reach::kUnfinished: return "unfinished";
  }
  return "other";
}

std::vector<Asked> ask_all(const Self& self, const std::vector<AskedNode>& nodes, Duration timeout,
                           const std::atomic<bool>& is_cancelled) {
  const auto end = AskClock::now() + timeout;
  const grpc::ChannelArguments arguments = dialling_arguments(kMaxSilenceDeadline);
  grpc::CompletionQueue queue;
  std::vector<std::unique_ptr<Ask>> asks;
  asks.reserve(nodes.size());
  for (const AskedNode& node : nodes) asks.push_back(std::make_unique<Ask>(self, node, queue, arguments));
  std::vector<Ask*> running;
  {
    Dialler dialler;  // goes before the queue, and after the last dial
    for (std::size_t begun = 0;;) {
      const bool is_over = is_cancelled || AskClock::now() >= end;
      while (!is_over && begun < asks.size() && running.size() < kMaxAsksAtOnce) {
        running.push_back(asks[begun++].get());
        running.back()->begin(dialler);
      }
      if (running.empty()) break;
      void* tag = nullptr;
      bool ok = false;
      const auto wait = std::chrono::system_clock::now() + kLookInterval;
      if (queue.AsyncNext(&tag, &ok, wait) == grpc::CompletionQueue::GOT_EVENT) {
        const Ask::Tag event = *static_cast<Ask::Tag*>(tag);
        if (!event.ask->proceed(event.step)) std::erase(running, event.ask);
      }
      const auto now = AskClock::now();
      for (Ask* const ask : running) {
        if (is_over || ask->is_late(now)) ask->give_up(ask->is_late(now));
      }
    }
  }
  queue.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue.Next(&tag, &ok)) {
  }
  std::vector<Asked> answers;
  answers.reserve(asks.size());
  for (const auto& ask : asks) answers.push_back(ask->take());
  return answers;
}

}  // namespace square::rpc
