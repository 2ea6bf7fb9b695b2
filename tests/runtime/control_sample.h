// A control parcel with something in every field that its kind writes, but for `calls`.
#pragma once

#include "runtime/node/control.h"

namespace sluice {

inline Control control_of(Control::Kind kind) {
  Control control{.kind = kind, .workflow = 3};
  control.number = 300;
  control.text = "lisa";
  control.life = {2, 7};
  control.node = 5;
  control.edge = 6;
  control.value = {std::byte{7}, std::byte{0}, std::byte{255}};
  return control;
}

}  // namespace sluice
