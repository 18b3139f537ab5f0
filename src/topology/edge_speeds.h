// What files say of the speed of a link, under whichever key, in whichever unit.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "square/topology.h"
#include "topology/speed_text.h"

namespace square {

// If a file's largest number without a unit is less than this in bit/s, bits per second are not what its
// author meant.
inline constexpr double kLeastPlausibleBps = 1e6;
// The same for LinkSpeedRaw, whose unit is known: the slowest link of the Topology Zoo.
inline constexpr double kLeastPlausibleRawBps = 9'600;

// A key that states a speed: "bandwidth", "Capacity (Gbps)", "linkSpeed_mbps".
struct SpeedKey {
  std::optional<double> unit_bps;  // nothing where the key does not say the unit
};
// Nothing for other keys, such as "capacity_stddev_mbps".
std::optional<SpeedKey> speed_key(std::string_view key);

// The speeds that a file gives an edge, most trusted first.
struct EdgeSpeed {
  std::optional<double> raw_bps;    // LinkSpeedRaw
  std::string link_speed;           // LinkSpeed, and
  std::string link_speed_units;     // LinkSpeedUnits
  std::optional<double> field_bps;  // bandwidth, capacity, ...
  std::string field_key;
  std::optional<double> label_bps;  // what its label states
};

// Reads the speeds of one file, and remembers what its numbers without a unit would be.
class EdgeSpeeds {
 public:
  explicit EdgeSpeeds(const TopologyReadOptions& options) : options_(options) {}

  // Takes in what an edge has under `key`; other keys are ignored. `place`, a line or an offset, comes back
  // from complaint(). Errors: INVALID_ARGUMENT for a text that is no speed, or a second speed that differs.
  Status read(std::string_view key, std::string_view value, std::size_t place, EdgeSpeed& speed);
  // A label in a drawing: "10 Gbps, 5 ms". Errors: as of speed_in_label().
  Status read_label(std::string_view label, LabelKind kind, std::size_t place, EdgeSpeed& speed);
  // The speed in a cell whose column is `key`. Errors: as of read().
  Result<std::optional<double>> read_value(const SpeedKey& key, std::string_view value, std::size_t place);

  // What counts, in bits per second; nothing if the edge has no speed. Errors: INVALID_ARGUMENT for a
  // LinkSpeedUnits that is no unit.
  Result<std::optional<double>> capacity_bps(const EdgeSpeed& speed, std::size_t place);

  struct Complaint {
    std::size_t place = 0;
    std::string message;
  };
  // Once the file is read: what to write if all numbers without a unit are implausible, or if labels are
  // numbers and no edge has a speed.
  [[nodiscard]] std::optional<Complaint> complaint() const;

 private:
  struct Numbers {
    std::size_t count = 0;
    double largest = 0;
    std::size_t place = 0;  // of the largest

    void add(double value, std::size_t at);
  };

  // Of a number without a unit.
  [[nodiscard]] std::optional<double> by_option(double value) const;

  TopologyReadOptions options_;
  bool has_speed_ = false;
  Numbers unknown_;  // under keys that do not say their unit
  Numbers raw_;      // LinkSpeedRaw
  Numbers labels_;   // labels that are a number
};

// Adds one link, or one for each direction. A loop carries nothing and is left out.
// Errors: as Topology::add_link().
Status add_edge(Topology& topology, NodeId source, NodeId target, bool directed,
                std::optional<double> capacity_bps);

}  // namespace square
