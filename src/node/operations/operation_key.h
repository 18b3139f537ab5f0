// Which call of which collective.
#pragma once

#include <compare>

#include "square/ids.h"

namespace square {

struct OperationKey {
  CollectiveId collective;
  OperationId operation;
  friend auto operator<=>(const OperationKey&, const OperationKey&) = default;
};

}  // namespace square
