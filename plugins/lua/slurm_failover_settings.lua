-- The site's settings as far as submission needs them, from the file that all of slurm-failover
-- reads. The defaults are those of slurm_failover/settings/tables.py.

local here = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
local toml = dofile(here .. "slurm_failover_toml.lua")

local M = { path = "/etc/slurm-failover/settings.toml" }

local DEFAULTS = {
	max_retries = 3,
	spot_partitions = { "spot*", "preempt*" },
	spot_qos = { "spot*", "preempt*" },
}

local function is_whole_number(value)
	return type(value) == "number" and value >= 1
end

local function is_list_of_strings(value)
	if type(value) ~= "table" or value.raw then return false end
	for key, item in pairs(value) do
		if type(key) ~= "number" or type(item) ~= "string" then return false end
	end
	return true
end

local CHECKS = {
	max_retries = { is_whole_number, "must be a whole number, at least 1" },
	spot_partitions = { is_list_of_strings, "must be a list of strings" },
	spot_qos = { is_list_of_strings, "must be a list of strings" },
}

local function choose(given)
	local site = {}
	for key, default in pairs(DEFAULTS) do
		local value = given[key]
		local fits, demand = CHECKS[key][1], CHECKS[key][2]
		if value ~= nil and not fits(value) then error("[failover] " .. key .. " " .. demand, 0) end
		site[key] = value == nil and default or value
	end
	return site
end

--- The settings in a file's text; `path` names it in what is raised.
function M.parse(text, path)
	local fine, result = pcall(function()
		local given = toml.read(text).failover or {}
		if type(given) ~= "table" then error("failover must be a table", 0) end
		return choose(given)
	end)
	if not fine then error(path .. ": " .. tostring(result), 0) end
	return result
end

--- The settings now, and nil; or the defaults, and what is wrong with the file. The defaults apply
-- without a word where there is no file.
function M.load()
	local file = io.open(M.path, "rb")
	if not file then return choose({}), nil end
	local text = file:read("*a") or ""
	file:close()
	local fine, result = pcall(M.parse, text, M.path)
	if fine then return result, nil end
	return choose({}), result
end

return M
