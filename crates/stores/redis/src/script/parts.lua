-- Parts that are made when they are first asked for. A script makes its functions anew in every call, and to make
-- all of them would cost as much as a take. A plain take loads its parts one by one; `other_parts` loads the rest.
-- `is_full` is whether the server has no room for new keys.

local parts, other_parts, is_full = {}, nil, nil
local engine = setmetatable({}, {
  __index = function(made, name)
    if not parts[name] then other_parts() end
    local part = parts[name]()
    made[name] = part
    return part
  end,
})

local pack, unpack_text = cmsgpack.pack, cmsgpack.unpack

local function clone(value)
  return unpack_text(pack(value))
end
