// A transport whose wire is a Simulation.
#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "square/simulation.h"
#include "square/transport.h"
#include "transport/capacity_meter.h"
#include "transport/link_watch.h"
#include "transport/sim/simulation_state.h"

namespace square {

// Who dials and gets no answer hears so then.
inline constexpr Duration kSimulatedConnectTime = std::chrono::seconds(1);

// Who hears nothing of a peer for so long gives it up: of what was sent, or, twice as long, of a ping.
inline constexpr Duration kSimulatedSilence = std::chrono::seconds(10);

// What is lost of a connection's own is sent again after so long, or after a round trip.
inline constexpr Duration kSimulatedResendTime = std::chrono::milliseconds(200);

// A frame is out of the transport's hands when no more than so much is before the end of it on the wire.
inline constexpr Duration kSimulatedQueueTime = std::chrono::milliseconds(100);

// What a probe takes of the wire.
inline constexpr Duration kSimulatedProbeTime = std::chrono::milliseconds(400);

class SimulatedTransport final : public Transport {
 public:
  SimulatedTransport(Simulation::State& simulation, std::string name);
  ~SimulatedTransport() override;

  Status start(TransportHandler& handler) override;
  static std::string address_of(const std::string& name) { return "sim:" + name; }
  [[nodiscard]] std::string address() const override { return address_of(name_); }
  LinkHandle open_link(std::string_view peer, std::string_view address) override;
  void send(LinkHandle link, Frame frame) override;
  // A simulated link has no windows that a second connection would widen.
  void set_channels(LinkHandle /*link*/, std::size_t /*channels*/) override {}
  // Frames then come at multiples of it.
  void set_patience(Duration patience) override { patience_ = patience; }
  void probe(LinkHandle link) override;
  void close_link(LinkHandle link) override;
  void stop() override;

  // Links that this node has opened to the peer break, at both ends.
  void cut(const std::string& peer);
  // What waited while links with the peer, of which this is the `end`, were stalled goes on.
  void resume(LinkEnd end, const std::string& peer);
  // Such links are stalled from now on: this end gives them up if they stay so for too long.
  void mind_silence(LinkEnd end, const std::string& peer);

 private:
  // What waits for a stalled line.
  struct Held {
    Executor::Task task;
    bool is_own = false;
  };
  // One direction of a connection. Frames of a stream keep their order: none arrives
  // before the one that was sent before it.
  struct Connection {
    LinkEnd end = LinkEnd::kTail;
    std::string peer;
    std::string other_address;  // empty until connected
    LinkHandle other_handle;
    std::map<std::pair<std::uint64_t, std::uint64_t>, TimePoint> last_arrival{};
    std::deque<Buffer> leaving{};  // payload that is in the transport's hands
    std::vector<Held> stalled{};   // what has come, or gone, meanwhile
    std::uint64_t stalls = 0;      // that it went through
    // Tail:
    LinkWatch watch{};
    CapacityMeter meter{};
    TimePoint busy_until{};  // the wire, with what was sent
    double sent_bits = 0;
    bool ran_dry = true;  // since the last look
    bool is_watched = false;
  };

  void connect(LinkHandle link, const std::string& peer, const std::string& address);
  LinkHandle accept(SimulatedTransport& from, LinkHandle from_handle);
  // At this end of a link, unless it is stalled: then when that is over. `is_own`: it is about what this end
  // has said.
  void happen(LinkHandle link, Executor::Task task, bool is_own = false);
  [[nodiscard]] bool is_held(const Connection& connection, bool is_own) const;
  // The oldest frame is out of the transport's hands.
  void let_go(LinkHandle link);
  void take(LinkHandle link, Frame frame, bool lost);
  // One with a bit that is not as it was sent: as transports do who look at its checksums.
  void take_damaged(LinkHandle link, const Frame& frame, double where);
  void watch(LinkHandle link);
  void look(LinkHandle link);
  void ping(Connection& connection);
  void answer_ping(const Connection& connection, std::uint64_t number);
  void hear(LinkHandle link, Connection& connection);
  // When something of TCP's own arrives: nothing of that is lost, but sent again.
  [[nodiscard]] TimePoint arrival_of_ping(const Connection& connection);
  void deliver(LinkHandle link, Frame frame, bool lost);
  void break_link(LinkHandle link, Status reason);
  // When the last bit of a frame that is sent now has left.
  TimePoint departure(Connection& connection, std::size_t payload_bytes, const LinkConditions& conditions);
  TimePoint arrival(Connection& connection, const FrameHeader& header, TimePoint left,
                    const LinkConditions& conditions);
  void measure(LinkHandle link, Connection& connection);
  [[nodiscard]] const LinkConditions& conditions(const Connection& connection) const;
  // The transport at the other end; null if it has stopped.
  [[nodiscard]] SimulatedTransport* other(const Connection& connection) const;
  // Runs `task` later, unless this transport is gone by then.
  void later(TimePoint when, Executor::Task task);

  Simulation::State& simulation_;
  std::string name_;
  TransportHandler* handler_ = nullptr;
  std::shared_ptr<bool> running_ = std::make_shared<bool>(false);
  std::map<LinkHandle, Connection> connections_;
  std::uint32_t next_handle_ = 1;
  Duration patience_{0};
  TimePoint looks_at_{};  // frames that came before wait until then, and so do all after them
};

}  // namespace square
