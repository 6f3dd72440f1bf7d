-- What only the submitting host can do, for cli_filter/lua: job_submit can not see --open-mode.
--
-- `slurm-failover install` puts one line into a site's own cli_filter.lua that has it called. By hand:
--
--	local failover = dofile("/opt/slurm-failover/share/slurm-failover/lua/slurm_failover_cli_filter.lua")
--	function slurm_cli_pre_submit(options, pack_offset)
--		if failover.pre_submit(options, pack_offset) ~= slurm.SUCCESS then return slurm.ERROR end
--		...

local here = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
local requests = dofile(here .. "slurm_failover_request.lua")

local M = {}

-- Whether the first component of a heterogeneous job asked; one sbatch calls us for each.
local leader_asked = false

local function asked(options)
	local plugin = (options.spank or {}).failover or {}
	return requests.read(plugin.failover, options.comment) ~= nil
end

local function prepare(options, offset)
	local flagged = asked(options)
	if offset == 0 then leader_asked = flagged end
	if not flagged then return nil end
	if not leader_asked then
		return "--failover: ask in the first component of a heterogeneous job; it is then for all of it"
	end
	-- All attempts in one file, in order; a mode that the user chose stays.
	if options["open-mode"] == nil then options["open-mode"] = "append" end
	return nil
end

--- Prepare a submission: the output of a flagged batch job is appended to, whatever the site's
-- JobFileAppend is. slurm.SUCCESS, or slurm.ERROR after telling the user why.
function M.pre_submit(options, offset)
	if options.type ~= "sbatch" then return slurm.SUCCESS end
	local fine, refusal = pcall(prepare, options, offset or 0)
	if not fine then
		slurm.log_debug("slurm-failover: cli_filter: %s", tostring(refusal))
		return slurm.SUCCESS
	end
	if not refusal then return slurm.SUCCESS end
	slurm.log_error("%s", refusal)
	return slurm.ERROR
end

--- Let the function of a site's whole script be followed by ours, in one line at its end:
-- `join(_G)`.
function M.join(script)
	local theirs = script.slurm_cli_pre_submit
	function script.slurm_cli_pre_submit(options, offset)
		local status = theirs(options, offset)
		if status ~= nil and status ~= slurm.SUCCESS then return status end
		return M.pre_submit(options, offset)
	end
end

return M
