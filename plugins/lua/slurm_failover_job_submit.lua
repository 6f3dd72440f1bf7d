-- The site's policy at submission, for job_submit/lua on the controller. A job that did not ask
-- for failover passes untouched and costs no file access.
--
-- `slurm-failover install` puts one line into a site's own job_submit.lua that has it called. By hand:
--
--	local failover = dofile("/opt/slurm-failover/share/slurm-failover/lua/slurm_failover_job_submit.lua")
--	function slurm_job_submit(job_desc, part_list, submit_uid)
--		if failover.submit(job_desc, part_list) ~= slurm.SUCCESS then return slurm.ERROR end
--		...
--	function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
--		if failover.modify(job_desc, job_rec, part_list, modify_uid) ~= slurm.SUCCESS then return slurm.ERROR end
--		...

local here = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
local requests = dofile(here .. "slurm_failover_request.lua")
local settings = dofile(here .. "slurm_failover_settings.lua")

local M = {}

-- What stands in AdminComment before our record; only slurm-failover itself writes one.
local RECORD_MARK = "slurm-failover"

local NO_REQUEUE = 0

-- The record of a job that waits for its first start, as slurm_failover/record.py writes it. Slurm
-- shows nobody the value of --failover: without this, nothing would tell that such a job is flagged.
local FIRST_RECORD = '{"slurm-failover":{"v":1,"state":"armed","retries":0,"max":%d,"option":true,'
	.. '"attempt":[1,"",0,0,"",""]}}'

-- The value of --failover in the job control environment of a job_desc or job_rec. Its list counts
-- from 0. A user can put any text there through Slurm's API.
local function option_of(job)
	for i = 0, (job.spank_job_env_size or 0) - 1 do
		local value = (job.spank_job_env[i] or ""):match("^FAILOVER=(.*)$")
		if value then return value end
	end
	return nil
end

local WILD = { ["*"] = ".*", ["?"] = "." }

-- A shell's glob as a pattern, as fnmatch of Python reads it.
local function pattern_of(glob)
	local parts, at = {}, 1
	while at <= #glob do
		local mark, set = glob:match("^%[(!?)(%]?[^%]]*)%]", at)
		if set and set ~= "" then
			parts[#parts + 1] = "[" .. (mark == "!" and "^" or "") .. set:gsub("[%%%]%^]", "%%%0") .. "]"
			at = at + #mark + #set + 2
		else
			local letter = glob:sub(at, at)
			parts[#parts + 1] = WILD[letter] or letter:gsub("%p", "%%%0")
			at = at + 1
		end
	end
	return "^" .. table.concat(parts) .. "$"
end

local function matches(name, globs, fold)
	for _, glob in ipairs(globs) do
		if fold(name):find(pattern_of(fold(glob))) then return true end
	end
	return false
end

local function as_it_is(text) return text end

local function first_match(names, globs, fold)
	for name in (names or ""):gmatch("[^,]+") do
		if matches(name, globs, fold) then return name end
	end
	return nil
end

local function default_partition(part_list)
	for name, partition in pairs(part_list) do
		if partition.flag_default == 1 then return name end
	end
	return nil
end

local function needs_on_demand(request, kind, name)
	return ("job failover needs on-demand resources: %s \"%s\" is spot or preemptible; "
		.. "choose another one or leave out %s"):format(kind, name, request.asked_by)
end

-- Why a job may not be flagged where it would run. Of several partitions or QOS, Slurm may choose
-- any: all must be on demand. Slurm tells small letters of a QOS from capitals as little as we do.
local function refuse_place(request, partitions, qos, part_list, site)
	local spot = first_match(partitions, site.spot_partitions, as_it_is)
	if spot then return needs_on_demand(request, "partition", spot) end
	spot = first_match(qos, site.spot_qos, string.lower)
	if spot then return needs_on_demand(request, "QOS", spot) end
	for name in (partitions or ""):gmatch("[^,]+") do
		local partition = part_list[name]
		spot = partition and first_match(partition.qos, site.spot_qos, string.lower)
		if spot then return needs_on_demand(request, "QOS of partition " .. name, spot) end
	end
	return nil
end

local function refuse_count(request, site)
	if request.problem then return request.asked_by .. ": " .. request.problem end
	if (request.retries or 0) <= site.max_retries then return nil end
	return ("%s: this site allows at most %d failovers for one job; ask for fewer, "
		.. "or leave the number out"):format(request.asked_by, site.max_retries)
end

local function refuse_no_requeue(request, requeue)
	if requeue ~= NO_REQUEUE then return nil end
	return request.asked_by .. ": a failover requeues the job, which --no-requeue (Requeue=0) forbids; "
		.. "leave out one of the two"
end

local function refuse_record(admin_comment)
	if not (admin_comment or ""):find(RECORD_MARK, 1, true) then return nil end
	return "AdminComment: a job can not bring a record of " .. RECORD_MARK .. " with it; leave it out"
end

local function load_site()
	local site, problem = settings.load()
	if problem then
		slurm.log_error("slurm-failover: %s; the default settings apply to submissions", problem)
	end
	return site
end

-- Which component of a heterogeneous job this is; nil of other jobs.
local function offset_of(job_desc)
	local offset = job_desc.het_job_offset or slurm.NO_VAL
	return offset ~= slurm.NO_VAL and offset or nil
end

-- Components of a heterogeneous job after the first have no script.
local function is_batch(job_desc)
	return job_desc.script ~= nil or (offset_of(job_desc) or 0) > 0
end

-- What the first component of each user's latest heterogeneous job asked for. It is for all of it,
-- and slurmctld asks us about one after the other.
local leaders = {}

local function request_of(job_desc)
	local offset, user = offset_of(job_desc), job_desc.user_id or 0
	local own = requests.read(option_of(job_desc), job_desc.comment)
	if offset == 0 then leaders[user] = own end
	return own or (offset or 0) > 0 and leaders[user] or nil
end

local function judge_submission(job_desc, part_list)
	local refusal = refuse_record(job_desc.admin_comment)
	if refusal then return refusal end
	local request = request_of(job_desc)
	if not request then return nil end
	if not is_batch(job_desc) then
		slurm.log_user("%s has no effect here: only batch jobs, submitted with sbatch, are failed over",
			request.asked_by)
		return nil
	end
	local site = load_site()
	local partitions = job_desc.partition or default_partition(part_list)
	local qos = job_desc.qos or job_desc.default_qos
	refusal = refuse_count(request, site)
		or refuse_place(request, partitions, qos, part_list, site)
		or refuse_no_requeue(request, job_desc.requeue)
	if refusal then return refusal end
	job_desc.requeue = 1
	if option_of(job_desc) and (job_desc.admin_comment or "") == "" then
		job_desc.admin_comment = FIRST_RECORD:format(request.retries or site.max_retries)
	end
	return nil
end

local function judge_change(job_desc, job_rec, part_list)
	local option = option_of(job_rec)
	local request = requests.read(option, job_desc.comment or job_rec.comment)
	if not request then return nil end
	local site = load_site()
	local asks_now = option == nil and job_desc.comment
	local moves = job_desc.partition or job_desc.qos
	local refusal = asks_now and refuse_count(request, site)
		or (asks_now or moves) and refuse_place(request, job_desc.partition or job_rec.partition,
			job_desc.qos or job_rec.qos, part_list, site)
		or refuse_no_requeue(request, job_desc.requeue)
	if not refusal and asks_now then job_desc.requeue = 1 end
	return refusal
end

-- Slurm's answer for a judgement. A fault of ours must not keep anyone from submitting.
local function answer(judge, ...)
	local fine, refusal = pcall(judge, ...)
	if not fine then
		slurm.log_error("slurm-failover: job_submit: %s", tostring(refusal))
		return slurm.SUCCESS
	end
	if not refusal then return slurm.SUCCESS end
	slurm.log_user("%s", refusal)
	return slurm.ERROR
end

--- Judge a job that is being submitted: slurm.SUCCESS, or slurm.ERROR after telling the user why.
-- A flagged job is made requeueable.
function M.submit(job_desc, part_list)
	return answer(judge_submission, job_desc, part_list)
end

--- Judge an owner's change of a job in the same way. What an operator changes is theirs to answer
-- for, and slurm-failover's own changes come from root or SlurmUser.
function M.modify(job_desc, job_rec, part_list, modify_uid)
	local touched = job_desc.comment or job_desc.partition or job_desc.qos
		or job_desc.requeue == NO_REQUEUE
	if not touched or modify_uid ~= job_rec.user_id then return slurm.SUCCESS end
	return answer(judge_change, job_desc, job_rec, part_list)
end

-- A function of a site's script, followed by ours: what the site refuses never reaches us.
local function followed(theirs, ours)
	return function(...)
		local status = theirs(...)
		if status ~= nil and status ~= slurm.SUCCESS then return status end
		return ours(...)
	end
end

--- Let both functions of a site's whole script be followed by ours, in one line at its end:
-- `join(_G)`.
function M.join(script)
	script.slurm_job_submit = followed(script.slurm_job_submit, M.submit)
	script.slurm_job_modify = followed(script.slurm_job_modify, M.modify)
end

return M
