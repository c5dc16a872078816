-- Parts that are made when they are first asked for. A script makes its functions anew in every call, and to make all of
-- them costs as much as a take.

local parts = {}
local engine = setmetatable({}, {
  __index = function(made, name)
    local part = parts[name]()
    made[name] = part
    return part
  end,
})

local pack, unpack_text = cmsgpack.pack, cmsgpack.unpack

local function clone(value)
  return unpack_text(pack(value))
end
